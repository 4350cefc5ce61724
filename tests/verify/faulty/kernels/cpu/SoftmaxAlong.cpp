// Softmax along an axis. Fault: a negative axis is off by one.
#include "ops/SoftmaxAlong.hpp"

namespace ops::FaultyPackage::SoftmaxAlong {

udo::Status execute(const Args& args) {
  const auto shape = args.x.shape();
  const auto rank = static_cast<std::int32_t>(shape.rank());
  const auto axis = static_cast<std::size_t>(args.axis < 0 ? args.axis + rank - 1 : args.axis);
  const std::size_t outer = shape.count(0, axis), length = shape[axis], inner = shape.count(axis + 1, shape.rank());
  for (std::size_t o = 0; o < outer; ++o) {
    for (std::size_t i = 0; i < inner; ++i) {
      const std::size_t first = o * length * inner + i;
      float largest = args.x[first], sum = 0;
      for (std::size_t k = 1; k < length; ++k) largest = std::fmax(largest, args.x[first + k * inner]);
      for (std::size_t k = 0; k < length; ++k) sum += std::exp(args.x[first + k * inner] - largest);
      for (std::size_t k = 0; k < length; ++k) {
        args.y[first + k * inner] = std::exp(args.x[first + k * inner] - largest) / sum;
      }
    }
  }
  return udo::ok;
}

}  // namespace ops::FaultyPackage::SoftmaxAlong
