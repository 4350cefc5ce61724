// Softmax on HTP along the last axis, on the fixed point of 8 bits that the DSP runtime passes between layers.
#include "ops/Softmax.hpp"

#include <algorithm>
#include <cmath>

namespace ops::SoftmaxUdoPackage::Softmax {

udo::Status execute(const Args& args) {
  const udo::Shape& shape = args.Placeholder.shape();
  if (args.Output.shape() != shape) return udo::error("the output must have the shape of the input");
  const std::size_t width = shape[shape.rank() - 1];
  const udo::Quantization in = args.Placeholder.quantization();
  const udo::Quantization out = args.Output.quantization();
  for (std::size_t row = 0; row < shape.count(); row += width) {
    const std::uint8_t* from = args.Placeholder.data() + row;
    std::uint8_t* to = args.Output.data() + row;
    const std::int32_t largest = *std::max_element(from, from + width);
    float sum = 0.0f;
    for (std::size_t i = 0; i < width; ++i) sum += std::exp(in.scale * static_cast<float>(from[i] - largest));
    for (std::size_t i = 0; i < width; ++i) {
      const float real = std::exp(in.scale * static_cast<float>(from[i] - largest)) / sum;
      to[i] = static_cast<std::uint8_t>(out.toStored(real, 0, 255));
    }
  }
  return udo::ok;
}

}  // namespace ops::SoftmaxUdoPackage::Softmax
