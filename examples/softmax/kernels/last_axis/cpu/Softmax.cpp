// Softmax along the last axis, of a tensor of any rank.
#include "ops/Softmax.hpp"

#include <algorithm>
#include <cmath>

namespace ops::SoftmaxUdoPackage::Softmax {

struct State {};

udo::Status finalize(const Args& args, State*&) {
  if (args.Output.shape() != args.Placeholder.shape()) {
    return udo::error("the output must have the shape of the input");
  }
  return udo::ok;
}

udo::Status execute(const Args& args, State*) {
  const udo::Shape shape = args.Placeholder.shape();
  const std::size_t width = shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
  const std::size_t rows = width == 0 ? 0 : shape.count() / width;
  for (std::size_t row = 0; row < rows; ++row) {
    const float* in = args.Placeholder.data() + row * width;
    float* out = args.Output.data() + row * width;
    const float largest = *std::max_element(in, in + width);
    float sum = 0.0f;
    for (std::size_t i = 0; i < width; ++i) {
      out[i] = std::exp(in[i] - largest);
      sum += out[i];
    }
    for (std::size_t i = 0; i < width; ++i) out[i] /= sum;
  }
  return udo::ok;
}

void free(State* state) { delete state; }

}  // namespace ops::SoftmaxUdoPackage::Softmax
