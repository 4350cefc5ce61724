// Softmax along any axis, of a tensor of any rank and type.
#include "ops/Softmax.hpp"

#include <algorithm>
#include <cmath>

namespace ops::SoftmaxAxisPackage::Softmax {

struct State {
  std::size_t outer;   // the number of elements of the axes before the axis
  std::size_t extent;  // the length of the axis
  std::size_t stride;  // the distance between its elements
};

udo::Status prepare(const Args& args, State& state) {
  // HTP has added leading ones to ranks below 4, so an axis must be counted from the last.
  const udo::Shape shape = args.input.shape();
  const auto rank = static_cast<std::int64_t>(shape.rank());
  const std::int64_t axis = args.axis < 0 ? args.axis + rank : args.axis;
  if (axis < 0 || axis >= rank) {
    return udo::error("axis is %d, but the input has rank %d", args.axis, static_cast<int>(rank));
  }
  if (args.output.shape() != shape) return udo::error("the output must have the shape of the input");
  const auto at = static_cast<std::size_t>(axis);
  state = {shape.count(0, at), shape[at], shape.count(at + 1, shape.rank())};
  return udo::ok;
}

namespace {
// Floats: the output holds the powers until their sum is known.
void softmax(const float* in, float* out, std::size_t extent, std::size_t stride) {
  float largest = in[0];
  for (std::size_t i = 1; i < extent; ++i) largest = std::max(largest, in[i * stride]);
  float sum = 0.0f;
  for (std::size_t i = 0; i < extent; ++i) sum += out[i * stride] = std::exp(in[i * stride] - largest);
  for (std::size_t i = 0; i < extent; ++i) out[i * stride] /= sum;
}
}  // namespace

udo::Status execute(const Args& args, const State& state) {
  for (std::size_t outer = 0; outer < state.outer; ++outer) {
    for (std::size_t inner = 0; inner < state.stride; ++inner) {
      const std::size_t first = outer * state.extent * state.stride + inner;
      const std::size_t last = first + state.extent * state.stride;
      if (args.input.isFloat() && args.output.isFloat()) {
        softmax(args.input.data<float>() + first, args.output.data<float>() + first, state.extent, state.stride);
        continue;
      }
      float largest = args.input.real(first);
      for (std::size_t i = first; i < last; i += state.stride) largest = std::max(largest, args.input.real(i));
      float sum = 0.0f;
      for (std::size_t i = first; i < last; i += state.stride) sum += std::exp(args.input.real(i) - largest);
      for (std::size_t i = first; i < last; i += state.stride) {
        args.output.setReal(i, std::exp(args.input.real(i) - largest) / sum);
      }
    }
  }
  return udo::ok;
}

}  // namespace ops::SoftmaxAxisPackage::Softmax
