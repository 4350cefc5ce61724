// Sums over the last axis. Fault: in half precision.
#include "ops/LongSum.hpp"

namespace ops::FaultyPackage::LongSum {
namespace {
// The nearest number with 11 significant bits, as in half precision.
float half(float x) {
  int exponent = 0;
  const float mantissa = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, 11)), exponent - 11);
}
}  // namespace

udo::Status execute(const Args& args) {
  const std::size_t rows = args.x.shape()[0], width = args.x.shape()[1];
  for (std::size_t row = 0; row < rows; ++row) {
    float sum = 0;
    for (std::size_t i = 0; i < width; ++i) sum = half(sum + half(args.x[row * width + i]));
    args.y[row] = sum;
  }
  return udo::ok;
}

}  // namespace ops::FaultyPackage::LongSum
