# Part of every op package that udogen generates; regenerating rewrites this file.
# The rules that build the package for one Linux target.  Included with TARGET and CXX set.
# The package's Makefile says LIBRARY_FOLDER, LIBRARY_NAME, SOURCES, and LINK_RULES: what may stay undefined.

# Ours come behind the SDK's: older SDKs have no qhpi.h.
HEADERS  := $(if $(QNN_SDK_ROOT),-I"$(QNN_SDK_ROOT)/include/QNN") -Iinclude/QNN
# Another interface of the backend has headers and flags of its own: it sets HEADERS anew, API_CXXFLAGS and API_LIBS.
API_CXXFLAGS :=
API_LIBS :=
-include makefiles/htp_core.mk
OBJ      := obj/$(TARGET)
LIBRARY  := $(LIBRARY_FOLDER)/$(TARGET)/$(LIBRARY_NAME)
OBJECTS  := $(patsubst %.cpp,$(OBJ)/%.o,$(SOURCES))
# `include` must come before the SDK's headers only for our own files; QNN headers are in a folder of their own.
COMPILE   = $(CXX) -std=c++17 -O2 -fPIC -fvisibility=hidden -Wall -Wextra -Iinclude -Isrc/utils $(HEADERS) \
            $(API_CXXFLAGS) $(CXXFLAGS) $(EXTRA_CXXFLAGS)
LINK      = $(CXX) -shared $(LINK_RULES) -Wl,-soname,$(LIBRARY_NAME) $(LDFLAGS) $(EXTRA_LDFLAGS)

# Writes down a command, where it is another one than last time.
remember   = @mkdir -p $(@D); printf '%s\n' '$(subst ','\'',$(1))' > $@.new; \
             if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$(LIBRARY): $(OBJECTS) $(OBJ)/link
	@mkdir -p $(@D)
	@echo "LINK $@"
	@$(LINK) -o $@ $(OBJECTS) $(API_LIBS) -lm

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
