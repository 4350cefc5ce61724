// SwiGlu on the CPU.
#include "ops/SwiGlu.hpp"

#include <cmath>

namespace ops::LlmPackage::SwiGlu {

udo::Status finalize(const Args& args, State*&) {
  const bool same = args.up.shape() == args.gate.shape() && args.output.shape() == args.gate.shape();
  return same ? udo::ok : udo::error("gate, up and the output must have one shape");
}

udo::Status execute(const Args& args, State*) {
  for (std::size_t i = 0; i < args.gate.size(); ++i) {
    args.output[i] = args.gate[i] / (1.0f + std::exp(-args.gate[i])) * args.up[i];
  }
  return udo::ok;
}

void free(State*) {}

}  // namespace ops::LlmPackage::SwiGlu
