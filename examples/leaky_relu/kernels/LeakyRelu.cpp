// LeakyRelu on CPU and HTP: floats of 32 and 16 bits, fixed point of 16 bits, and of 8 bits through a table of its 256
// values, which is prepared once.
#include "ops/LeakyRelu.hpp"

namespace ops::LeakyReluPackage::LeakyRelu {

namespace {
float leaky(float x, float alpha) { return x > 0.0f ? x : alpha * x; }

template <class T>
void leakyFloats(const Args& args) {
  const T* in = args.input.data<T>();
  T* out = args.output.data<T>();
  const float alpha = args.alpha;
  for (std::size_t i = 0, size = args.input.size(); i < size; ++i) out[i] = T(leaky(float(in[i]), alpha));
}
}  // namespace

struct State {
  bool isTable;
  std::uint8_t table[256];
};

udo::Status prepare(const Args& args, State& state) {
  if (args.output.shape() != args.input.shape()) return udo::error("the output must have the shape of the input");
  state.isTable = args.input.isUint8() && args.output.isUint8();
  for (int stored = 0; stored < 256 && state.isTable; ++stored) {
    const float real = leaky(args.input.quantization().toReal(stored), args.alpha);
    state.table[stored] = static_cast<std::uint8_t>(args.output.quantization().toStored(real, 0, 255));
  }
  return udo::ok;
}

udo::Status execute(const Args& args, const State& state) {
  const std::size_t size = args.input.size();
  if (args.input.isFloat() && args.output.isFloat()) {
    leakyFloats<float>(args);
  } else if (args.input.isHalf() && args.output.isHalf()) {
    leakyFloats<udo::Half>(args);
  } else if (state.isTable) {
    const std::uint8_t* in = args.input.data<std::uint8_t>();
    std::uint8_t* out = args.output.data<std::uint8_t>();
    for (std::size_t i = 0; i < size; ++i) out[i] = state.table[in[i]];
  } else {
    for (std::size_t i = 0; i < size; ++i) args.output.setReal(i, leaky(args.input.real(i), args.alpha));
  }
  return udo::ok;
}

}  // namespace ops::LeakyReluPackage::LeakyRelu
