// Softmax along the last axis on DSP V65/V66: bytes in and out, rows shared among worker threads.
#include "ops/Softmax.hpp"

#include <cmath>

namespace ops::SoftmaxUdoPackage::Softmax {

constexpr std::uint32_t threads = 2;

// exp() of every distance that two stored numbers can have: the input's scale is known before its data.
struct State {
  float powers[256];
};

udo::Status prepare(const Args& args, State& state) {
  const float step = args.Placeholder.quantization().scale;
  for (int below = 0; below < 256; ++below) state.powers[below] = std::exp(-step * static_cast<float>(below));
  return udo::ok;
}

namespace {

void softmax(const std::uint8_t* in, std::uint8_t* out, std::size_t width, const State& state,
             const udo::Quantization& to) {
  std::uint8_t largest = 0;
  for (std::size_t i = 0; i < width; ++i) largest = in[i] > largest ? in[i] : largest;
  float sum = 0.0f;
  for (std::size_t i = 0; i < width; ++i) sum += state.powers[largest - in[i]];
  for (std::size_t i = 0; i < width; ++i) {
    out[i] = static_cast<std::uint8_t>(to.toStored(state.powers[largest - in[i]] / sum, 0, 255));
  }
}

}  // namespace

udo::Status execute(const Args& args, const State& state, udo::Dsp& dsp) {
  const udo::Shape shape = args.Placeholder.shape();
  if (args.Output.shape() != shape) return udo::error("the output must have the shape of the input");
  const std::size_t width = shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
  const std::size_t rows = width == 0 ? 0 : shape.count() / width;
  const udo::Quantization to = args.Output.quantization();
  return dsp.run(threads, [&](std::uint32_t thread, std::uint32_t number) {
    const auto [begin, end] = udo::Dsp::part(rows, 1, thread, number);
    for (std::size_t row = begin; row < end; ++row) {
      softmax(args.Placeholder.data() + row * width, args.Output.data() + row * width, width, state, to);
    }
    return udo::ok;
  });
}

}  // namespace ops::SoftmaxUdoPackage::Softmax
