# Auto-generated part of every op package that udogen generates; regenerating rewrites this file.
# The rules that build the package for one target.  Included with TARGET and CXX set; what else a target has of its own is
# TARGET_CXXFLAGS, TARGET_LDFLAGS, TARGET_LINKER (where CXX does not link; it reads TARGET_LAYOUT), TARGET_LIBRARIES, and
# TARGET_RUNTIME: the library that must be loaded with it.
# What another layout than QNN's has elsewhere is LAYOUT_COMMON (this file), LAYOUT_RULES (the others), LAYOUT_INCLUDES,
# LAYOUT_SUPPORT, LAYOUT_HEADERS (those of QNN), LAYOUT_OBJ, and LAYOUT_X86, LAYOUT_ANDROID, LAYOUT_HEXAGON (folders of libraries).
# LAUNCHER (or UDOGEN_LAUNCHER of the environment) is a program in front of each compiler: ccache, sccache, distcc.
# UDO_PROVE=1 builds a library that writes how often its ops were executed to a file (src/utils/Executions.hpp).
# The package's Makefile sets LIBRARY_FOLDER, LIBRARY_NAME, SOURCES, and LINK_RULES: what may stay undefined.

# Ours come behind the SDK's: older SDKs have no qhpi.h.
HEADERS  := $(if $(QNN_SDK_ROOT),-I"$(QNN_SDK_ROOT)/include/QNN") -I$(or $(LAYOUT_HEADERS),include/QNN)
# Another interface of the backend has headers and flags of its own: it sets HEADERS anew, API_CXXFLAGS and API_LIBS.
API_CXXFLAGS :=
API_LIBS :=
-include $(or $(LAYOUT_SUPPORT),makefiles)/htp_core.mk
OBJ      := $(or $(LAYOUT_OBJ),obj)/$(TARGET)
LIBRARY  := $(LIBRARY_FOLDER)/$(TARGET)/$(LIBRARY_NAME)
OBJECTS  := $(patsubst %.cpp,$(OBJ)/%.o,$(SOURCES))
# Kernels in Python: `udogen build` leaves the object files of each target in a folder beside them.
PYTHON_KERNELS := $(if $(wildcard $(SOURCES:.cpp=.py)),$(patsubst %.cpp,%.py,$(shell grep -ls '\.halide/kernel\.inc"' $(SOURCES))))
PYTHON_OBJECTS := $(foreach each,$(PYTHON_KERNELS),$(or $(wildcard $(each:.py=.halide)/$(TARGET)/*.o),\
                    $(error $(each) is not compiled for $(TARGET): `udogen build` does that, with Halide installed)))
# `include` must come before the SDK's headers only for our own files; QNN headers are in a folder of their own.
FLAGS     = -std=c++17 -O2 -fPIC -fvisibility=hidden -Wall -Wextra $(or $(LAYOUT_INCLUDES),-Iinclude -Isrc/utils) \
            $(HEADERS) $(if $(UDO_PROVE),-DUDO_PROVE) $(TARGET_CXXFLAGS) $(PACKAGE_CXXFLAGS) $(API_CXXFLAGS) \
            $(CXXFLAGS) $(EXTRA_CXXFLAGS)
COMPILE   = $(CXX) $(FLAGS)
TARGET_LINKER    ?= $(CXX) -shared $(LINK_RULES) -Wl,-soname,$(LIBRARY_NAME)
TARGET_LIBRARIES ?= -lm
LINK      = $(TARGET_LINKER) $(TARGET_LDFLAGS) $(if $(RUNTIME),-Wl$(comma)--no-as-needed $(RUNTIME)) $(LDFLAGS) $(EXTRA_LDFLAGS)
comma    := ,
RUNTIME  := $(addprefix $(OBJ)/,$(TARGET_RUNTIME))

# Records are about COMPILE: another launcher makes nothing old.  Its words are quoted, so that they are only words to the shell.
LAUNCHER ?= $(value UDOGEN_LAUNCHER)
launcher := $(foreach word,$(LAUNCHER),'$(subst ','\'',$(word))')
CALLED   := $(CXX)
make_called :=
# For ccache the language of messages belongs to what is made.
ifneq ($(launcher),)
export LC_ALL := C
endif
# A launcher must be given one program: `python3 -m ziglang c++` and its target become a script, which has zig's version in
# it, for caches read the compiler to know when it is another; for ccache the same without the path of Python.  Other
# machines have no such script, so nothing is sent to them.
ifneq ($(and $(launcher),$(filter c++,$(wordlist 2,$(words $(CXX)),$(CXX)))),)
ifneq ($(filter distcc,$(notdir $(LAUNCHER))),)
launcher :=
else
CALLED   := $(OBJ)/zig-clang++
blank    := $(subst ,, )
parts    := $(subst |c++|, ,$(subst $(blank),|,$(strip $(CXX)))|)
version  := zig $(shell $(subst |, ,$(firstword $(parts))) version)
make_called = printf '%s\n' '\#!/bin/sh' '\# $(version)' 'exec $(subst ','\'',$(CXX)) "$$@"' > $(CALLED) && chmod +x $(CALLED);
export CCACHE_COMPILERCHECK ?= string:$(version) $(subst |, ,$(word 2,$(parts)))
unexport CCACHE_PREFIX
endif
endif

# Content decides what is old; times of files do not count.  What is made leaves a record behind: the checksums of all that
# it was made of (the command too, which is a file here) and its own.  STALE is what has no record, or one that is not true.
written  = printf '%s\n' '$(subst ','\'',$(2))' > $(1).new; if cmp -s $(1).new $(1); then rm $(1).new; else mv $(1).new $(1); fi
# The names of files in a record, or in the lists of headers that compilers write, where a blank and the like have a backslash.
recorded = cut -c67- $(1) | LC_ALL=C sort -u | tr '\n' '\0' | xargs -0 -r sha256sum 2>/dev/null
listed   = sed -e '1s/^.*\.o: *//' -e 's/ *\\$$//' -e 's/[$$][$$]/$$/g' -e "s/[\"']/\\\\&/g" $(1) 2>/dev/null
untrue   = awk 'now { is[$$0]; next } { has[FILENAME] } !($$0 in is) { old[FILENAME] } \
           END { for (i = 4; i < ARGC; i++) if (ARGV[i] in old || !(ARGV[i] in has)) print ARGV[i] }' now=1 - now= $(1)

PARTS    := $(OBJECTS) $(RUNTIME)
RECORDS  := $(PARTS:%=%.made) $(OBJ)/library.made
HAVE     := $(wildcard $(RECORDS))
# Quotes do not count: they are where somebody thought of blanks.
STALE    := $(shell mkdir -p $(OBJ) && \
              { $(make_called) \
                $(call written,$(OBJ)/command,$(subst ",,$(COMPILE))); \
                $(call written,$(OBJ)/link,$(subst ",,$(LINK) $(OBJECTS) $(PYTHON_OBJECTS) $(API_LIBS) $(TARGET_LIBRARIES))); })
STALE    := $(filter-out $(HAVE),$(RECORDS)) $(if $(HAVE),$(shell $(call recorded,$(HAVE)) | $(call untrue,$(HAVE))))
STALE    := $(strip $(patsubst %.made,%,$(STALE)))

# Put behind what makes $@ of the files that $(1) prints: the record, unless one of them was changed since $@.begun.
record   = $(1) | xargs sha256sum > $@.sums && sha256sum $@ >> $@.sums && \
           if [ -z "$$(cut -c67- $@.sums | grep -vxF $@ | tr '\n' '\0' | xargs -0 sh -c 'find -L "$$@" -cnewer $@.begun' - 2>/dev/null)" ]; \
           then mv $@.sums $@.made; else rm $@.sums; fi; rm -f $@.begun

$(LIBRARY): | $(PARTS) $(TARGET_LAYOUT)
	@echo "LINK $@"
	@mkdir -p $(@D) && rm -f $(OBJ)/library.made
	@$(LINK) -o $(OBJ)/library.new $(OBJECTS) $(PYTHON_OBJECTS) $(API_LIBS) $(TARGET_LIBRARIES) && mv -f $(OBJ)/library.new $@
	@if cat $(PARTS:%=%.made) > $(OBJ)/library.sums 2>/dev/null; then \
	 sha256sum $(OBJ)/link $(TARGET_LAYOUT) $(wildcard $(KERNELS)) $(PYTHON_KERNELS) $(PYTHON_OBJECTS) $@ >> $(OBJ)/library.sums && \
	 LC_ALL=C sort -u -o $(OBJ)/library.sums $(OBJ)/library.sums && mv $(OBJ)/library.sums $(OBJ)/library.made; fi

ifneq ($(RUNTIME),)
# An empty library with the runtime's name: the package's library asks the loader for the real one.
$(RUNTIME):
	@rm -f $@.made; : > $@.begun
	@$(CXX) -shared -nostdlib -Wl,-soname,$(@F) -x c++ /dev/null -o $@
	@$(call record,echo $(OBJ)/command)
endif

# After a failure: is this a kernel for support files of Qualcomm's generators, in a package that has none of ours for it?
VENDOR_SUPPORT := %/CustomOps.cpp %/GpuVendorOps.cpp %/DspVendorOps.cpp %/HtpCoreUtils.cpp
VENDOR_MARKS   := REGISTER_OP *\(|BEGIN_PKG_OP_DEFINITION|QnnGpu_Kernel_t|UdoDspShared
check_style = $(if $(filter $(VENDOR_SUPPORT),$(SOURCES)),,if grep -qE '$(VENDOR_MARKS)' $(1); then echo "$(1):1: error: this kernel \
              is in the style of Qualcomm's generators, the package is not: generate it again, which recognizes the style"; fi;)

$(OBJ)/%.o: | %.cpp
	@mkdir -p $(@D) && rm -f $@.made $(@:.o=.d) && : > $@.begun
	@echo "CXX $*.cpp"
	@$(launcher) $(CALLED) $(FLAGS) -MMD -c -o $@ $*.cpp || { $(call check_style,$*.cpp) false; }
	@$(call record,{ echo $*.cpp $(OBJ)/command; $(call listed,$(@:.o=.d)); })

ifneq ($(STALE),)
$(filter-out $(OBJ)/library,$(STALE)) $(LIBRARY): FORCE
endif
.PHONY: FORCE
FORCE:
