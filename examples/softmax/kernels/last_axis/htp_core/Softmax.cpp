// Softmax on HTP along the last axis, in the C++ style of the SDK.
#include "ops/Softmax.hpp"

#include <algorithm>
#include <cmath>

namespace ops::SoftmaxUdoPackage::Softmax {

template <class OutputType, class InputType>
GraphStatus softmaxImpl(OutputType& output, const InputType& input, const Params&) {
  if (!udo::sameShape(output, input)) return udo::fail("the output must have the shape of the input");
  const std::size_t width = input.dim(input.rank() - 1);
  for (std::size_t row = 0; row < udo::count(input); row += width) {
    float largest = udo::real(input, row);
    for (std::size_t i = 1; i < width; ++i) largest = std::max(largest, udo::real(input, row + i));
    float sum = 0.0f;
    for (std::size_t i = 0; i < width; ++i) sum += std::exp(udo::real(input, row + i) - largest);
    for (std::size_t i = 0; i < width; ++i) {
      udo::setReal(output, row + i, std::exp(udo::real(input, row + i) - largest) / sum);
    }
  }
  return GraphStatus::Success;
}

}  // namespace ops::SoftmaxUdoPackage::Softmax

#define UDO_COST FAST
#include "ops/Softmax.registration.hpp"
