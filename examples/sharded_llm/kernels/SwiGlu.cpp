// SwiGlu: floats, or fixed point of 16 bits.
#include "ops/SwiGlu.hpp"

#include <cmath>

namespace ops::LlmPackage::SwiGlu {

udo::Status execute(const Args& args) {
  const udo::Shape shape = args.gate.shape();
  if (args.up.shape() != shape || args.output.shape() != shape) {
    return udo::error("gate, up and the output must have one shape");
  }
  for (std::size_t i = 0; i < args.gate.size(); ++i) {
    const float gate = args.gate.real(i);
    args.output.setReal(i, gate / (1.0f + std::exp(-gate)) * args.up.real(i));
  }
  return udo::ok;
}

}  // namespace ops::LlmPackage::SwiGlu
