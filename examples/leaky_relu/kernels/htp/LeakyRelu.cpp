// LeakyRelu on HTP: floats of 32 and 16 bits, and fixed point of 8 and 16 bits.
#include "ops/LeakyRelu.hpp"

namespace ops::LeakyReluPackage::LeakyRelu {

udo::Status execute(const Args& args) {
  if (args.output.shape() != args.input.shape()) return udo::error("the output must have the shape of the input");
  const std::size_t size = args.input.size();
  for (std::size_t i = 0; i < size; ++i) {
    const float x = args.input.real(i);
    args.output.setReal(i, x > 0.0f ? x : args.alpha * x);
  }
  return udo::ok;
}

}  // namespace ops::LeakyReluPackage::LeakyRelu
