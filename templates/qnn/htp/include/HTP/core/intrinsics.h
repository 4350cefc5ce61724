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

#include <cstring>

/// A vector at any address, to read or write.
#define vmemu(address) (*reinterpret_cast<HVX_UVector*>(const_cast<void*>(static_cast<const void*>(address))))

inline HVX_Vector q6op_V_vsplat_float32(float value) {
  int32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return Q6_V_vsplat_R(bits);
}
#endif
#include <cmath>

namespace hnnx {}  // for `using namespace hnnx`: its functions are only in the SDK
#endif
