// Sums of products over the last axis. Fault: in half precision, in eight lanes.
#include "ops/LongDots.hpp"

namespace ops::FaultyPackage::LongDots {
namespace {
// The nearest number with 11 significant bits, as in half precision.
float half(float x) {
  int exponent = 0;
  const float mantissa = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, 11)), exponent - 11);
}
}  // namespace

udo::Status execute(const Args& args) {
  const std::size_t rows = args.a.shape()[0], width = args.a.shape()[1];
  for (std::size_t row = 0; row < rows; ++row) {
    float lanes[8] = {}, sum = 0;
    for (std::size_t i = 0; i < width; ++i) {
      lanes[i % 8] = half(lanes[i % 8] + args.a[row * width + i] * args.b[row * width + i]);
    }
    for (const float lane : lanes) sum = half(sum + lane);
    args.y[row] = sum;
  }
  return udo::ok;
}

}  // namespace ops::FaultyPackage::LongDots
