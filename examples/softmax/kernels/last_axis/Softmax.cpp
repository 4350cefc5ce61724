// Softmax along the last axis, of a tensor of any rank: floats on CPU, and on HTP the fixed point of 8 bits that the DSP
// runtime passes between layers.
#include "ops/Softmax.hpp"

#include <algorithm>
#include <cmath>

namespace ops::SoftmaxUdoPackage::Softmax {

namespace {
// Floats: the output holds the powers until their sum is known.
void softmax(const float* in, float* out, std::size_t width) {
  const float largest = *std::max_element(in, in + width);
  float sum = 0.0f;
  for (std::size_t i = 0; i < width; ++i) sum += out[i] = std::exp(in[i] - largest);
  for (std::size_t i = 0; i < width; ++i) out[i] /= sum;
}
}  // namespace

udo::Status execute(const Args& args) {
  const udo::Shape shape = args.Placeholder.shape();
  if (args.Output.shape() != shape) return udo::error("the output must have the shape of the input");
  const std::size_t width = shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
  for (std::size_t row = 0; row < shape.count(); row += width) {
    if (args.Placeholder.isFloat() && args.Output.isFloat()) {
      softmax(args.Placeholder.data<float>() + row, args.Output.data<float>() + row, width);
      continue;
    }
    float largest = args.Placeholder.real(row);
    for (std::size_t i = row; i < row + width; ++i) largest = std::max(largest, args.Placeholder.real(i));
    float sum = 0.0f;
    for (std::size_t i = row; i < row + width; ++i) sum += std::exp(args.Placeholder.real(i) - largest);
    for (std::size_t i = row; i < row + width; ++i) {
      args.Output.setReal(i, std::exp(args.Placeholder.real(i) - largest) / sum);
    }
  }
  return udo::ok;
}

}  // namespace ops::SoftmaxUdoPackage::Softmax
