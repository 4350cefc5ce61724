// Auto-generated part of op packages whose kernels include it; regenerating rewrites this file.
//
// Replaces the header of this name in the Hexagon SDK (libs/qhl_hvx) if no SDK is installed: kernels include it for the
// types and intrinsics of HVX.  The functions of that library need the SDK.
#pragma once

#include <hexagon_types.h>
#include <stdint.h>

#if defined(__hexagon__)
#include <hexagon_protos.h>
#include <hvx_hexagon_protos.h>
#endif
