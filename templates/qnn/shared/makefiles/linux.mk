# Auto-generated part of every op package that udogen generates; regenerating rewrites this file.
# The rules that build the package for one target.  Included with TARGET and CXX set; what else a target has of its own is
# TARGET_CXXFLAGS, TARGET_LDFLAGS, TARGET_LINKER (where CXX does not link; it reads TARGET_LAYOUT), TARGET_LIBRARIES, and
# TARGET_RUNTIME: the library that must be loaded with it.
# What another layout than QNN's has elsewhere is LAYOUT_COMMON (this file), LAYOUT_RULES (the others), LAYOUT_INCLUDES,
# LAYOUT_OURS, LAYOUT_HEADERS (those of QNN), LAYOUT_OBJ, and LAYOUT_X86, LAYOUT_ANDROID, LAYOUT_HEXAGON (folders of libraries).
# The package's Makefile says LIBRARY_FOLDER, LIBRARY_NAME, SOURCES, and LINK_RULES: what may stay undefined.

# Ours come behind the SDK's: older SDKs have no qhpi.h.
HEADERS  := $(if $(QNN_SDK_ROOT),-I"$(QNN_SDK_ROOT)/include/QNN") -I$(or $(LAYOUT_HEADERS),include/QNN)
# Another interface of the backend has headers and flags of its own: it sets HEADERS anew, API_CXXFLAGS and API_LIBS.
API_CXXFLAGS :=
API_LIBS :=
-include $(or $(LAYOUT_OURS),makefiles)/htp_core.mk
OBJ      := $(or $(LAYOUT_OBJ),obj)/$(TARGET)
LIBRARY  := $(LIBRARY_FOLDER)/$(TARGET)/$(LIBRARY_NAME)
OBJECTS  := $(patsubst %.cpp,$(OBJ)/%.o,$(SOURCES))
# `include` must come before the SDK's headers only for our own files; QNN headers are in a folder of their own.
COMPILE   = $(CXX) -std=c++17 -O2 -fPIC -fvisibility=hidden -Wall -Wextra $(or $(LAYOUT_INCLUDES),-Iinclude -Isrc/utils) \
            $(HEADERS) $(TARGET_CXXFLAGS) $(PACKAGE_CXXFLAGS) $(API_CXXFLAGS) $(CXXFLAGS) $(EXTRA_CXXFLAGS)
TARGET_LINKER    ?= $(CXX) -shared $(LINK_RULES) -Wl,-soname,$(LIBRARY_NAME)
TARGET_LIBRARIES ?= -lm
LINK      = $(TARGET_LINKER) $(TARGET_LDFLAGS) $(if $(RUNTIME),-Wl$(comma)--no-as-needed $(RUNTIME)) $(LDFLAGS) $(EXTRA_LDFLAGS)
comma    := ,
RUNTIME  := $(addprefix $(OBJ)/,$(TARGET_RUNTIME))

# Writes down a command, where it is another one than last time.
remember   = @mkdir -p $(@D); printf '%s\n' '$(subst ','\'',$(1))' > $@.new; \
             if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$(LIBRARY): $(OBJECTS) $(OBJ)/link $(RUNTIME) $(TARGET_LAYOUT)
	@mkdir -p $(@D)
	@echo "LINK $@"
	@$(LINK) -o $@ $(OBJECTS) $(API_LIBS) $(TARGET_LIBRARIES)

ifneq ($(RUNTIME),)
# An empty library with the runtime's name: ours shall ask the loader for the real one.
$(RUNTIME): $(OBJ)/command
	@$(CXX) -shared -nostdlib -Wl,-soname,$(@F) -x c++ /dev/null -o $@
endif

# Another compiler, other flags or other headers make every object old; other objects make the library old.
$(OBJ)/command: FORCE
	$(call remember,$(COMPILE))

$(OBJ)/link: FORCE
	$(call remember,$(LINK) $(OBJECTS))

$(OBJ)/%.o: %.cpp $(OBJ)/command
	@mkdir -p $(@D)
	@echo "CXX $<"
	@$(COMPILE) -MMD -MP -c -o $@ $<

.PHONY: FORCE
FORCE:

-include $(OBJECTS:.o=.d)
