// Auto-generated part of every op package that udogen generates; regenerating rewrites this file.
#pragma once

#include <cmath>
#include <cstdint>

namespace udo {

/// real value = scale * (stored value + offset)
struct Quantization {
  float scale = 1.0f;
  std::int32_t offset = 0;

  float toReal(std::int32_t stored) const { return scale * static_cast<float>(stored + offset); }

  /// The nearest stored value between `low` and `high`.
  std::int32_t toStored(float real, std::int32_t low, std::int32_t high) const {
    const float stored = std::nearbyint(real / scale) - static_cast<float>(offset);
    if (!(stored > static_cast<float>(low))) return low;  // also where it is no number
    if (stored >= static_cast<float>(high)) return high;
    return static_cast<std::int32_t>(stored);
  }
};

}  // namespace udo
