// Softmax on HTP along any axis: floats of 32 and 16 bits, and fixed point of 8 bits.
#include "ops/Softmax.hpp"

#include <algorithm>
#include <cmath>

namespace ops::SoftmaxAxisPackage::Softmax {

udo::Status execute(const Args& args) {
  // HTP has filled ranks below 4 with ones in front, so that an axis counts from the last one.
  const udo::Shape& shape = args.input.shape();
  if (args.output.shape() != shape) return udo::error("the output must have the shape of the input");
  const auto rank = static_cast<std::int64_t>(shape.rank());
  const std::int64_t axis = args.axis < 0 ? args.axis + rank : args.axis;
  if (axis < 0 || axis >= rank) return udo::error("axis is %d, but the rank is %d", args.axis, static_cast<int>(rank));
  const auto at = static_cast<std::size_t>(axis);
  const std::size_t extent = shape[at];
  const std::size_t stride = shape.count(at + 1, shape.rank());
  for (std::size_t outer = 0; outer < shape.count(0, at); ++outer) {
    for (std::size_t inner = 0; inner < stride; ++inner) {
      const std::size_t first = outer * extent * stride + inner;
      float largest = args.input.real(first);
      for (std::size_t i = 1; i < extent; ++i) largest = std::max(largest, args.input.real(first + i * stride));
      float sum = 0.0f;
      for (std::size_t i = 0; i < extent; ++i) sum += std::exp(args.input.real(first + i * stride) - largest);
      for (std::size_t i = 0; i < extent; ++i) {
        args.output.setReal(first + i * stride, std::exp(args.input.real(first + i * stride) - largest) / sum);
      }
    }
  }
  return udo::ok;
}

}  // namespace ops::SoftmaxAxisPackage::Softmax
