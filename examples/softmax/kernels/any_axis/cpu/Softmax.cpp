// Softmax along any axis, of a tensor of any rank.
#include "ops/Softmax.hpp"

#include <algorithm>
#include <cmath>

namespace ops::SoftmaxAxisPackage::Softmax {

struct State {
  std::size_t outer;   // how many times the axis is walked, before it …
  std::size_t extent;  // … its own length …
  std::size_t inner;   // … and the distance between its elements
};

udo::Status finalize(const Args& args, State*& state) {
  const udo::Shape shape = args.input.shape();
  const auto rank = static_cast<std::int64_t>(shape.rank());
  const std::int64_t axis = args.axis < 0 ? args.axis + rank : args.axis;
  if (axis < 0 || axis >= rank) {
    return udo::error("axis is %d, but the input has rank %d", args.axis, static_cast<int>(rank));
  }
  if (args.output.shape() != shape) return udo::error("the output must have the shape of the input");
  const auto at = static_cast<std::size_t>(axis);
  state = new State{shape.count(0, at), shape[at], shape.count(at + 1, shape.rank())};
  return udo::ok;
}

udo::Status execute(const Args& args, State* state) {
  for (std::size_t outer = 0; outer < state->outer; ++outer) {
    for (std::size_t inner = 0; inner < state->inner; ++inner) {
      const std::size_t first = outer * state->extent * state->inner + inner;
      const float* in = args.input.data() + first;
      float* out = args.output.data() + first;
      float largest = in[0];
      for (std::size_t i = 1; i < state->extent; ++i) largest = std::max(largest, in[i * state->inner]);
      float sum = 0.0f;
      for (std::size_t i = 0; i < state->extent; ++i) {
        out[i * state->inner] = std::exp(in[i * state->inner] - largest);
        sum += out[i * state->inner];
      }
      for (std::size_t i = 0; i < state->extent; ++i) out[i * state->inner] /= sum;
    }
  }
  return udo::ok;
}

void free(State* state) { delete state; }

}  // namespace ops::SoftmaxAxisPackage::Softmax
