// Auto-generated part of every op package that udogen generates for the C++ style of HTP; regenerating rewrites this file.
// The vectors of HVX, 128 bytes each, for a PC without libnative of the Hexagon tools.
#pragma once

#include <stdint.h>

union alignas(128) HVX_Vector {
  int32_t w[32];
  uint32_t uw[32];
  int16_t h[64];
  uint16_t uh[64];
  int8_t b[128];
  uint8_t ub[128];
};

struct HVX_VectorPair {
  HVX_Vector v[2];
};

struct HVX_VectorPred {
  HVX_Vector mask;
};
