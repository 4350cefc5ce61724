# Auto-generated part of every op package that udogen generates; regenerating rewrites this file.
# The rules that build the package for one target: FOR is x86_64, aarch64 (Linux) or android.  Or the caller sets TARGET
# and CXX, and, if needed, TARGET_CXXFLAGS, TARGET_LDFLAGS, TARGET_LINKER (if CXX does not link; it reads TARGET_LAYOUT),
# TARGET_LIBRARIES, and TARGET_RUNTIME: the library that must be loaded with the package.
# A layout other than QNN's sets LAYOUT_COMMON (this file), LAYOUT_RULES (the other makefiles), LAYOUT_INCLUDES,
# LAYOUT_SUPPORT, LAYOUT_HEADERS (those of QNN), LAYOUT_OBJ, and LAYOUT_X86, LAYOUT_ANDROID, LAYOUT_HEXAGON (folders of
# libraries).
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

# The headers of the package come after the SDK's, because older SDKs have no qhpi.h.
HEADERS  := $(if $(QNN_SDK_ROOT),-I"$(QNN_SDK_ROOT)/include/QNN") -I$(or $(LAYOUT_HEADERS),include/QNN)
# Another interface of the backend has its own headers and flags: it replaces HEADERS, and sets API_CXXFLAGS and
# API_LIBS.
API_CXXFLAGS :=
API_LIBS :=
-include $(or $(LAYOUT_SUPPORT),makefiles)/htp_core.mk
override SOURCES += $(UDO_PROVE)
OBJ      := $(or $(LAYOUT_OBJ),obj)/$(TARGET)
LIBRARY  := $(LIBRARY_FOLDER)/$(TARGET)/$(LIBRARY_NAME)
OBJECTS  := $(patsubst %.cpp,$(OBJ)/%.o,$(SOURCES))
# Kernels in Python: `udogen build` writes the object files for each target to a folder next to them; KERNEL_OBJECTS
# names another folder, for those with a sanitizer.
PYTHON_KERNELS := $(if $(wildcard $(SOURCES:.cpp=.py)),$(patsubst %.cpp,%.py,$(shell grep -ls '\.halide/kernel\.inc"' $(SOURCES))))
PYTHON_OBJECTS := $(foreach each,$(PYTHON_KERNELS),$(or $(wildcard $(each:.py=.halide)/$(or $(KERNEL_OBJECTS),$(TARGET))/*.o),\
                    $(error $(each) is not compiled for $(TARGET): `udogen build` does that, with Halide installed)))
# `include` must come before the SDK's headers only for udogen's own files; QNN headers are in a separate folder.
FLAGS     = -std=c++17 -O2 -fPIC -fvisibility=hidden -Wall -Wextra $(or $(LAYOUT_INCLUDES),-Iinclude) \
            $(HEADERS) $(if $(UDO_PROVE),-DUDO_PROVE) $(TARGET_CXXFLAGS) $(PACKAGE_CXXFLAGS) $(API_CXXFLAGS) \
            $(CXXFLAGS) $(EXTRA_CXXFLAGS)
COMPILE   = $(CXX) $(FLAGS)
# Without optimization zig compiles and links its sanitizer library, which code that is compiled in this way needs.
LINK_LEVEL = $(if $(filter c++,$(CXX)),-O2 $(filter -O%,$(CXXFLAGS) $(EXTRA_CXXFLAGS)))
TARGET_LINKER    ?= $(CXX) $(LINK_LEVEL) -shared $(LINK_RULES) -Wl,-soname,$(LIBRARY_NAME)
TARGET_LIBRARIES ?= -lm
LINK      = $(TARGET_LINKER) $(TARGET_LDFLAGS) $(if $(RUNTIME),-Wl$(comma)--no-as-needed $(RUNTIME)) $(LDFLAGS) $(EXTRA_LDFLAGS)
RUNTIME  := $(addprefix $(OBJ)/,$(TARGET_RUNTIME))

# Records contain COMPILE but not the launcher: another launcher makes nothing stale.  Its words are quoted for the
# shell.
LAUNCHER ?= $(value UDOGEN_LAUNCHER)
launcher := $(foreach word,$(LAUNCHER),'$(subst ','\'',$(word))')
CALLED   := $(CXX)
make_called :=
# For ccache the language of messages is a part of the result.
ifneq ($(launcher),)
export LC_ALL := C
endif
# A launcher needs a single program: `python3 -m ziglang c++` and its target become a script.  It contains zig's
# version, because caches read the compiler to detect another one; ccache gets the same without the path of Python.
# Other machines do not have this script, so nothing is sent to them.
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

# The contents of files decide what is stale, not their times.  Two records have the checksums of what was made, and of
# all that it was made from (also of the command, which is a file here): $(OBJ)/library.made, as sha256sum writes it,
# and $(OBJ)/made for the objects, where each line ends with a tab and the object's name, and the last line of an object
# is the object itself.  STALE is what has no record, or one that does not match.
PARTS    := $(OBJECTS) $(RUNTIME)
written  = printf '%s\n' '$(subst ','\'',$(2))' > $(1).new; if cmp -s $(1).new $(1); then rm $(1).new; else mv $(1).new $(1); fi
listed   = LC_ALL=C sort -u | tr '\n' '\0'
untrue   = cut -f1 $(OBJ)/made $(OBJ)/library.made | cut -c67- | $(listed) | xargs -0 -r sha256sum 2>/dev/null | \
           awk -F'\t' 'BEGIN { for (i = 6; i < ARGC; i++) all[ARGV[i]]; ARGC = 6 } \
             now { is[$$0]; next } \
             { what = NF > 1 ? $$2 : "$(LIBRARY)"; if (substr($$1, 67) == what) has[what]; if (!($$1 in is)) old[what] } \
             END { for (what in all) if (what in old || !(what in has)) print what }' \
             now=1 - now= $(OBJ)/made $(OBJ)/library.made $(PARTS) $(LIBRARY)

# Records what was compiled since then, which $@.done marks, unless a source was changed after this make (or the failed
# one before it) began.  Compilers list headers in make's syntax, where blanks and similar characters have a backslash.
inputs   = awk 'BEGIN { for (i = 1; i < ARGC; i++) { \
               object = list = ARGV[i]; source = substr(object, length("$(OBJ)/") + 1); \
               if ((getline line < (object ".done")) < 0) { print "\t" object; continue } \
               print "$(OBJ)/command\t" object; \
               if (sub(/\.o$$/, ".cpp", source) && sub(/\.o$$/, ".d", list)) { \
                 print source "\t" object; \
                 while ((getline line < list) > 0) { \
                   sub(/^.*\.o: */, "", line); sub(/ *\\$$/, "", line); gsub(/\\ /, "\001", line); gsub(/\\\#/, "\#", line); \
                   gsub(/[$$][$$]/, "$$", line); words = split(line, word, " "); \
                   for (j = 1; j <= words; j++) { gsub("\001", " ", word[j]); if (word[j] != source) print word[j] "\t" object } } } \
               close(list); close(object ".done"); \
               print object "\t" object } }'
record   = $(inputs) $(PARTS) > $(OBJ)/inputs; \
           cut -f1 $(OBJ)/inputs | $(listed) > $(OBJ)/names; \
           xargs -0 sha256sum < $(OBJ)/names > $(OBJ)/sums 2>/dev/null; \
           xargs -0 sh -c 'find -L "$$@" -cnewer $(OBJ)/begun' - < $(OBJ)/names > $(OBJ)/changed 2>/dev/null; \
           awk -F'\t' 'part == 1 { sum[substr($$0, 67)] = $$0; next } \
             part == 2 { if (index($$0, "$(OBJ)/") != 1) changed[$$0]; next } \
             part == 3 { if ($$1 == "") kept[$$2]; else { if (!($$1 in sum) || $$1 in changed) bad[$$2]; line[++lines] = $$0 }; next } \
             $$2 in kept { print } \
             END { for (i = 1; i <= lines; i++) { split(line[i], word, "\t"); if (!(word[2] in bad)) print sum[word[1]] "\t" word[2] } }' \
             part=1 $(OBJ)/sums part=2 $(OBJ)/changed part=3 $(OBJ)/inputs part=4 $(OBJ)/made > $(OBJ)/made.new && \
           mv $(OBJ)/made.new $(OBJ)/made && find $(OBJ) -name '*.done' -exec rm {} + ; \
           rm -f $(OBJ)/inputs $(OBJ)/names $(OBJ)/sums $(OBJ)/changed

# Each command lists the objects once, because its length is limited.  Records have no quotes, which only protect
# blanks.
STALE    := $(if $(wildcard $(PARTS:%=%.done)),$(shell $(record)))
STALE    := $(shell mkdir -p $(sort $(OBJ) $(dir $(PARTS))) && \
              { : > $(OBJ)/begun; : >> $(OBJ)/made; : >> $(OBJ)/library.made; $(make_called) \
                $(call written,$(OBJ)/command,$(subst ",,$(COMPILE))); \
                $(call written,$(OBJ)/link,$(subst ",,$(LINK) $(OBJECTS) $(PYTHON_OBJECTS) $(API_LIBS) $(TARGET_LIBRARIES))); })
STALE    := $(shell $(untrue))

$(LIBRARY): | $(PARTS) $(TARGET_LAYOUT)
	@echo "LINK $@"; mkdir -p $(@D); $(record)
	@$(LINK) -o $(OBJ)/library.new $(OBJECTS) $(PYTHON_OBJECTS) $(API_LIBS) $(TARGET_LIBRARIES) && mv -f $(OBJ)/library.new $@
	@cut -f1 $(OBJ)/made > $(OBJ)/library.sums && \
	 sha256sum $(OBJ)/link $(TARGET_LAYOUT) $(wildcard $(KERNELS)) $(PYTHON_KERNELS) $(PYTHON_OBJECTS) $@ >> $(OBJ)/library.sums && \
	 LC_ALL=C sort -u -o $(OBJ)/library.sums $(OBJ)/library.sums && mv $(OBJ)/library.sums $(OBJ)/library.made

ifneq ($(RUNTIME),)
# An empty library with the runtime's name: because of it the loader loads the real one with the package's library.
$(RUNTIME):
	@$(CXX) -shared -nostdlib -Wl,-soname,$(@F) -x c++ /dev/null -o $@ && : > $@.done
endif

# After a failure: reports a kernel for the support files of Qualcomm's generators in a package without udogen's
# versions.
VENDOR_SUPPORT := %/CustomOps.cpp %/GpuVendorOps.cpp %/DspVendorOps.cpp %/HtpCoreUtils.cpp
VENDOR_MARKS   := REGISTER_OP *\(|BEGIN_PKG_OP_DEFINITION|QnnGpu_Kernel_t|UdoDspShared
check_style = $(if $(filter $(VENDOR_SUPPORT),$(SOURCES)),,if grep -qE '$(VENDOR_MARKS)' $(1); then echo "$(1):1: error: this kernel \
              is in the style of Qualcomm's generators, the package is not: generate it again, which recognizes the style"; fi;)

$(OBJ)/%.o: | %.cpp
	@echo "CXX $*.cpp"; $(launcher) $(CALLED) $(FLAGS) -MMD -c -o $@ $*.cpp && : > $@.done || { $(call check_style,$*.cpp) false; }

ifneq ($(STALE),)
$(sort $(STALE) $(LIBRARY)): FORCE
endif
.PHONY: FORCE
FORCE:
