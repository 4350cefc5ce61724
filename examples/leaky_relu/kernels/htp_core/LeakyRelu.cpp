// LeakyRelu on HTP in the C++ style of the SDK: floats of 32 and 16 bits, and fixed point of 8 and 16 bits.
#include "ops/LeakyRelu.hpp"

namespace ops::LeakyReluPackage::LeakyRelu {

template <class OutputType, class InputType>
GraphStatus leakyreluImpl(OutputType& output, const InputType& input, const Params& params) {
  if (!udo::sameShape(output, input)) return udo::fail("the output must have the shape of the input");
  const std::size_t size = udo::count(input);
  for (std::size_t i = 0; i < size; ++i) {
    const float x = udo::real(input, i);
    udo::setReal(output, i, x > 0.0f ? x : params.alpha * x);
  }
  return GraphStatus::Success;
}

// The approximate number of cycles: HTP compares it with that of other ways to compute the same.
float cost(const Op*) { return 1000.0f; }

}  // namespace ops::LeakyReluPackage::LeakyRelu

#define UDO_COST_FUNCTION ops::LeakyReluPackage::LeakyRelu::cost
#include "ops/LeakyRelu.registration.hpp"
