// Auto-generated part of every op package with kernels in Qualcomm's style; regenerating rewrites this file.
//
// What QHPI kernels need from this header of the C++ interface: on Hexagon its types and intrinsics, and the name of
// their package.
#pragma once

#if __has_include_next("HTP/core/intrinsics.h")
#include_next "HTP/core/intrinsics.h"
#else
#include "HTP/core/constraints.h"
#if defined(__hexagon__)
#include <hexagon_protos.h>
#include <hexagon_types.h>
#include <hvx_hexagon_protos.h>
#endif
#include <cmath>
#endif
