// LeakyRelu on floats, and on fixed point of 8 bits through a table of its 256 values.
#include "ops/LeakyRelu.hpp"

#include <array>

namespace ops::LeakyReluPackage::LeakyRelu {

struct State {
  std::array<std::uint8_t, 256> table;
};

namespace {
float leaky(float x, float alpha) { return x > 0.0f ? x : alpha * x; }
}  // namespace

udo::Status finalize(const Args& args, State*& state) {
  if (args.output.shape() != args.input.shape()) return udo::error("the output must have the shape of the input");
  if (args.output.isFloat() != args.input.isFloat()) return udo::error("input and output must be of one type");
  if (args.input.isFloat()) return udo::ok;
  state = new State{};
  for (int stored = 0; stored < 256; ++stored) {
    const float real = leaky(args.input.quantization().toReal(stored), args.alpha);
    state->table[static_cast<std::size_t>(stored)] =
        static_cast<std::uint8_t>(args.output.quantization().toStored(real, 0, 255));
  }
  return udo::ok;
}

udo::Status execute(const Args& args, State* state) {
  const std::size_t size = args.input.size();
  if (state == nullptr) {
    const float* in = args.input.data<float>();
    float* out = args.output.data<float>();
    for (std::size_t i = 0; i < size; ++i) out[i] = leaky(in[i], args.alpha);
  } else {
    const std::uint8_t* in = args.input.data<std::uint8_t>();
    std::uint8_t* out = args.output.data<std::uint8_t>();
    for (std::size_t i = 0; i < size; ++i) out[i] = state->table[in[i]];
  }
  return udo::ok;
}

void free(State* state) { delete state; }

}  // namespace ops::LeakyReluPackage::LeakyRelu
