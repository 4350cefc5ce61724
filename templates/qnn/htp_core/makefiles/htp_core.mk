# Auto-generated part of every op package that udogen generates for the C++ style of HTP; regenerating rewrites this file.
# The package's Makefile includes it, and the rules of each target, which set TARGET, include it again.
#
# The headers are those of one release of the SDK, in C++: the library must be built with the C++ library of that SDK,
# libc++, and runs on that release only.
ifneq ($(origin TARGET),file)

# The first compiler that has libc++; g++ has none.
ifeq ($(X86_CXX),)
X86_CXX := $(if $(shell echo "\#include <cstddef>" | clang++ -stdlib=libc++ -x c++ -E - >/dev/null 2>&1 && echo yes),clang++ -stdlib=libc++)
endif
ifeq ($(X86_CXX),)
X86_CXX := $(if $(shell python3 -m ziglang version 2>/dev/null),python3 -m ziglang c++)
endif
ifeq ($(X86_CXX),)
X86_CXX := clang++ -stdlib=libc++
endif
export X86_CXX

else

ifeq ($(shell test -f "$(QNN_SDK_ROOT)/include/QNN/HTP/core/op_register_ext.h" && echo there),)
$(error the C++ style of HTP needs the headers of the QNN SDK: set QNN_SDK_ROOT to its folder)
endif
HEADERS := -isystem "$(QNN_SDK_ROOT)/include/QNN"
# Its macros define functions that may be unused.
API_CXXFLAGS := -DTHIS_PKG_NAME=$(PACKAGE_NAME) -Wno-unused-function -Wno-missing-braces

ifneq ($(filter hexagon-% dsp_%,$(TARGET)),)
API_CXXFLAGS += -DUSE_OS_QURT -DPREPARE_DISABLED
# The classes of the SDK need the types of objects at run time.
API_CXXFLAGS += -frtti
else
API_CXXFLAGS += -D__HVXDBL__ -DUSE_OS_LINUX
# On a PC libnative of the Hexagon tools provides HVX; without it a header of the package declares what the SDK's use.
LIBNATIVE := $(firstword $(foreach place,Tools/libnative libnative,$(if $(shell test -f "$(HEXAGON_TOOLS_ROOT)/$(place)/include/hexagon_protos.h" && echo there),$(place))))
ifneq ($(LIBNATIVE),)
HEADERS += -I"$(HEXAGON_TOOLS_ROOT)/$(LIBNATIVE)/include"
API_LIBS := -L"$(HEXAGON_TOOLS_ROOT)/$(LIBNATIVE)/lib" -lnative
else
HEADERS += -I$(or $(LAYOUT_SUPPORT),.)/include/hexagon
endif
endif

endif
