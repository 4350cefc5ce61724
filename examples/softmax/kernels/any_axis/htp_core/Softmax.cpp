// Softmax on HTP along any axis, in the C++ style of the SDK: floats of 32 and 16 bits, and fixed point of 8 bits.
#include "ops/Softmax.hpp"

#include <algorithm>
#include <cmath>

namespace ops::SoftmaxAxisPackage::Softmax {

template <class OutputType, class InputType>
GraphStatus softmaxImpl(OutputType& output, const InputType& input, const Params& params) {
  // HTP has added leading ones to ranks below 4, so an axis must be counted from the last.
  if (!udo::sameShape(output, input)) return udo::fail("the output must have the shape of the input");
  const auto rank = static_cast<std::int64_t>(input.rank());
  const std::int64_t axis = params.axis < 0 ? params.axis + rank : params.axis;
  if (axis < 0 || axis >= rank) {
    return udo::fail("axis is %d, but the rank is %d", static_cast<int>(params.axis), static_cast<int>(rank));
  }
  const auto at = static_cast<std::size_t>(axis);
  const std::size_t extent = input.dim(at);
  const std::size_t stride = udo::count(input, at + 1, input.rank());
  for (std::size_t outer = 0; outer < udo::count(input, 0, at); ++outer) {
    for (std::size_t inner = 0; inner < stride; ++inner) {
      const std::size_t first = outer * extent * stride + inner;
      const auto x = [&](std::size_t i) { return udo::real(input, first + i * stride); };
      float largest = x(0);
      for (std::size_t i = 1; i < extent; ++i) largest = std::max(largest, x(i));
      float sum = 0.0f;
      for (std::size_t i = 0; i < extent; ++i) sum += std::exp(x(i) - largest);
      for (std::size_t i = 0; i < extent; ++i) {
        udo::setReal(output, first + i * stride, std::exp(x(i) - largest) / sum);
      }
    }
  }
  return GraphStatus::Success;
}

}  // namespace ops::SoftmaxAxisPackage::Softmax

#include "ops/Softmax.registration.hpp"
