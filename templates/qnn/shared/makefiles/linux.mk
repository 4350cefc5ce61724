# Auto-generated part of every op package that udogen generates; regenerating rewrites this file.
# The rules that build the package for one target: FOR is x86_64, aarch64 (Linux) or android.  Or the caller sets TARGET
# and CXX, and, if needed, TARGET_CXXFLAGS, TARGET_LDFLAGS, TARGET_LINKER (if CXX does not link; it reads TARGET_LAYOUT),
# TARGET_LIBRARIES, and TARGET_RUNTIME: the library that must be loaded with the package.
#: A layout other than QNN's sets LAYOUT_COMMON (this file), LAYOUT_RULES (the other makefiles), LAYOUT_INCLUDES,
#: LAYOUT_SUPPORT, LAYOUT_HEADERS (those of QNN), LAYOUT_OBJ, and LAYOUT_X86, LAYOUT_ANDROID, LAYOUT_HEXAGON (folders of
#: libraries).
# LAUNCHER (or UDOGEN_LAUNCHER of the environment) is a program in front of each compiler: ccache, sccache, distcc.
# UDO_PROVE names a source that makes the library write how often its ops were executed (`udogen build --prove`).
# The package's Makefile sets LIBRARY_FOLDER, LIBRARY_NAME, SOURCES, and LINK_RULES: which symbols may stay undefined.
comma := ,

zig_cxx = $(if $(shell python3 -m ziglang version 2>/dev/null),python3 -m ziglang c++$(1))
first_of = $(firstword $(foreach name,$(1),$(if $(shell command -v $(name) 2>/dev/null),$(name))))
ifeq ($(FOR),x86_64)
TARGET := $(or $(LAYOUT_X86),x86_64-linux-clang)
CXX := $(or $(X86_CXX),$(call first_of,clang++ g++),$(call zig_cxx),\
         $(error no C++ compiler: install clang or g++, or `pip install ziglang`, or set X86_CXX))
#: Clang's own library, if it is installed: Clang 14 converts halves with functions that libgcc has not, or has with
#: another calling convention.
TARGET_BUILTINS := $(if $(findstring clang,$(CXX)),$(wildcard $(shell $(CXX) --rtlib=compiler-rt -print-libgcc-file-name 2>/dev/null)))
else ifeq ($(FOR),aarch64)
TARGET := aarch64-linux-gnu
CXX := $(or $(AARCH64_CXX),$(call zig_cxx, -target aarch64-linux-gnu.2.31),$(call first_of,aarch64-linux-gnu-g++),\
         $(error no compiler for aarch64 Linux: `pip install ziglang`, or set AARCH64_CXX))
TARGET_RUNTIME := $(AARCH64_RUNTIME)
else ifeq ($(FOR),android)
TARGET := $(or $(LAYOUT_ANDROID),aarch64-android)
ifeq ($(ANDROID_NDK_ROOT),)
$(error ANDROID_NDK_ROOT is not set: install the Android NDK and set it to its folder)
endif
CXX := "$(ANDROID_NDK_ROOT)/toolchains/llvm/prebuilt/linux-x86_64/bin/clang++" --target=aarch64-none-linux-android21
TARGET_CXXFLAGS := -stdlib=libc++
TARGET_LDFLAGS := -stdlib=libc++ -static-libstdc++
# Linked only if a source of yours calls OpenCL.
TARGET_LDFLAGS += $(if $(CL_LIBRARY_PATH),-L"$(CL_LIBRARY_PATH)" -Wl$(comma)--as-needed -lOpenCL)
TARGET_RUNTIME := $(AARCH64_RUNTIME)
endif

#: The headers of the package come after the SDK's, because older SDKs have no qhpi.h.
HEADERS  := $(if $(QNN_SDK_ROOT),-I"$(QNN_SDK_ROOT)/include/QNN") -I$(or $(LAYOUT_HEADERS),include/QNN)
#: Another interface of the backend has its own headers and flags: it replaces HEADERS, and sets API_CXXFLAGS and
#: API_LIBS.
API_CXXFLAGS :=
API_LIBS :=
-include $(or $(LAYOUT_SUPPORT),makefiles)/htp_core.mk
override SOURCES += $(UDO_PROVE)
OBJ      := $(or $(LAYOUT_OBJ),obj)/$(TARGET)
LIBRARY  := $(LIBRARY_FOLDER)/$(TARGET)/$(LIBRARY_NAME)
OBJECTS  := $(patsubst %.cpp,$(OBJ)/%.o,$(SOURCES))
#: Kernels in Python: `udogen build` writes the object files for each target to a folder next to them; KERNEL_OBJECTS
#: names another folder, for those with a sanitizer.
PYTHON_KERNELS := $(if $(wildcard $(SOURCES:.cpp=.py)),$(patsubst %.cpp,%.py,$(shell grep -ls '\.halide/kernel\.inc"' $(SOURCES))))
PYTHON_OBJECTS := $(foreach each,$(PYTHON_KERNELS),$(or $(wildcard $(each:.py=.halide)/$(or $(KERNEL_OBJECTS),$(TARGET))/*.o),\
                    $(error $(each) is not compiled for $(TARGET): `udogen build` does that, with Halide installed)))
#: `include` must come before the SDK's headers only for udogen's own files; QNN headers are in a separate folder.
FLAGS     = -std=c++17 -O2 -fPIC -fvisibility=hidden -Wall -Wextra $(or $(LAYOUT_INCLUDES),-Iinclude) \
            $(HEADERS) $(if $(UDO_PROVE),-DUDO_PROVE) $(TARGET_CXXFLAGS) $(PACKAGE_CXXFLAGS) $(API_CXXFLAGS) \
            $(CXXFLAGS) $(EXTRA_CXXFLAGS)
COMPILE   = $(CXX) $(FLAGS)
#: Without optimization zig compiles and links its sanitizer library, which code that is compiled in this way needs.
LINK_LEVEL = $(if $(filter c++,$(CXX)),-O2 $(filter -O%,$(CXXFLAGS) $(EXTRA_CXXFLAGS)))
TARGET_LINKER    ?= $(CXX) $(LINK_LEVEL) -shared $(LINK_RULES) -Wl,-soname,$(LIBRARY_NAME)
TARGET_LIBRARIES ?= -lm
LINK      = $(TARGET_LINKER) $(TARGET_LDFLAGS) $(if $(RUNTIME),-Wl$(comma)--no-as-needed $(RUNTIME)) $(LDFLAGS) $(EXTRA_LDFLAGS)
RUNTIME  := $(addprefix $(OBJ)/,$(TARGET_RUNTIME))

#: Records contain COMPILE but not the launcher: another launcher makes nothing stale.  Its words are quoted for the
#: shell.
LAUNCHER ?= $(value UDOGEN_LAUNCHER)
launcher := $(foreach word,$(LAUNCHER),'$(subst ','\'',$(word))')
CALLED   := $(CXX)
make_called :=
#: For ccache the language of messages is a part of the result.
ifneq ($(launcher),)
export LC_ALL := C
endif
#: A launcher needs a single program: `python3 -m ziglang c++` and its target become a script.  It contains zig's
#: version, because caches read the compiler to detect another one; ccache gets the same without the path of Python.
#: Other machines do not have this script, so nothing is sent to them.
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

#: The contents of files decide what is stale, not their times.  A record has the checksums of what was made and of all
#: that it was made from, also of the command, which is a file here: <object>.sums, and $(OBJ)/library.made.  STALE is what
#: has no record, or one with a line that is no longer true.
PARTS    := $(OBJECTS) $(RUNTIME)
RECORDS  := $(PARTS:%=%.sums) $(OBJ)/library.made
written  = printf '%s\n' '$(subst ','\'',$(2))' > $(1).new; if cmp -s $(1).new $(1); then rm $(1).new; else mv $(1).new $(1); fi

#: Records an object, unless one of its sources was changed after this make began.  Compilers list headers in make's
#: syntax, where blanks and similar characters have a backslash, as for xargs.
record   = { sed -e 's/^.*\.o: *//' -e 's/ *\\$$//' -e "s/['\"]/\\\\&/g" -e 's/[$$][$$]/$$/g' $(@:.o=.d) | xargs printf '%s\n'; \
             echo $(OBJ)/command; echo $@; } | tr '\n' '\0' > $@.names; \
           test -n "$$(xargs -0 sh -c 'find -L "$$@" -cnewer $(OBJ)/begun' - < $@.names | grep -v '^$(OBJ)/')" || \
           { xargs -0 sha256sum < $@.names > $@.new && mv $@.new $@.sums; }; rm -f $@.names

#: Records have no quotes, which only protect blanks.
DONE     := $(shell mkdir -p $(sort $(OBJ) $(dir $(PARTS))) && : > $(OBJ)/begun; $(make_called) \
              $(call written,$(OBJ)/command,$(subst ",,$(COMPILE))); \
              $(call written,$(OBJ)/link,$(subst ",,$(LINK) $(OBJECTS) $(PYTHON_OBJECTS) $(API_LIBS) $(TARGET_LIBRARIES) $(TARGET_BUILTINS))))
RECORDED := $(wildcard $(RECORDS))
UNTRUE   := $(if $(RECORDED),$(shell cat $(RECORDED) | cut -c67- | LC_ALL=C sort -u | tr '\n' '\0' | \
              xargs -0 -r sha256sum > $(OBJ)/now 2>/dev/null; grep -lvxFf $(OBJ)/now $(RECORDED); find $(RECORDED) -size 0))
STALE    := $(patsubst %.sums,%,$(subst $(OBJ)/library.made,$(LIBRARY),$(UNTRUE) $(filter-out $(RECORDED),$(RECORDS))))

$(LIBRARY): | $(PARTS) $(TARGET_LAYOUT)
	@echo "LINK $@"; mkdir -p $(@D); rm -f $(OBJ)/library.made
	@$(LINK) -o $(OBJ)/library.new $(OBJECTS) $(PYTHON_OBJECTS) $(API_LIBS) $(TARGET_LIBRARIES) $(TARGET_BUILTINS) && mv -f $(OBJ)/library.new $@
	@{ cat $(PARTS:%=%.sums) 2>/dev/null; \
	   sha256sum $(OBJ)/link $(TARGET_LAYOUT) $(wildcard $(KERNELS)) $(PYTHON_KERNELS) $(PYTHON_OBJECTS) $@; } | \
	 LC_ALL=C sort -u > $(OBJ)/library.sums && mv $(OBJ)/library.sums $(OBJ)/library.made

ifneq ($(RUNTIME),)
#: An empty library with the runtime's name: because of it the loader loads the real one with the package's library.
$(RUNTIME):
	@$(CXX) -shared -nostdlib -Wl,-soname,$(@F) -x c++ /dev/null -o $@ && sha256sum $@ > $@.sums
endif

#: After a failure: reports a kernel for the support files of Qualcomm's generators in a package without udogen's
#: versions.
VENDOR_MARKS   := REGISTER_OP *\(|BEGIN_PKG_OP_DEFINITION|QnnGpu_Kernel_t|UdoDspShared
check_style = if ! grep -qs UDO_VENDOR_STYLE $(SOURCES) && grep -qE '$(VENDOR_MARKS)' $(1); then echo "$(1):1: error: this kernel \
              is in the style of Qualcomm's generators, the package is not: generate it again, which recognizes the style"; fi;

$(OBJ)/%.o: | %.cpp
	@echo "CXX $*.cpp"; rm -f $@.sums; $(launcher) $(CALLED) $(FLAGS) -MMD -c -o $@ $*.cpp || { $(call check_style,$*.cpp) false; }
	@$(record)

ifneq ($(STALE),)
$(sort $(STALE) $(LIBRARY)): FORCE
endif
.PHONY: FORCE
FORCE:
