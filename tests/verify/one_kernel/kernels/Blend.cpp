// One source for CPU, HTP and DSP: several types, an optional input, a tensor parameter, a default, prepared state.
#include "ops/Blend.hpp"

namespace ops::OneKernel::Blend {

struct State {
  std::size_t count;
  float factors[8];
};

udo::Status prepare(const Args& args, State& state) {
  state.count = args.weights.size();
  if (state.count > 8) return udo::error("%zu weights are more than 8", state.count);
  if (args.y.shape() != args.x.shape()) return udo::error("the output must have the shape of the input");
  for (std::size_t i = 0; i < state.count; ++i) state.factors[i] = args.weights.real(i) * args.alpha;
  return udo::ok;
}

udo::Status execute(const Args& args, const State& state) {
  const std::size_t size = args.x.size();
  for (std::size_t i = 0; i < size; ++i) {
    const float bias = args.bias ? args.bias[i % args.bias.size()] : 0.0f;
    args.y.setReal(i, args.x.real(i) * state.factors[i % state.count] + bias);
  }
  return udo::ok;
}

}  // namespace ops::OneKernel::Blend
