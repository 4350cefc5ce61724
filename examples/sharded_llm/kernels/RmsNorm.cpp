// RmsNorm: rows of floats or of 16 bits, with a gain of floats or of 8 bits.
#include "ops/RmsNorm.hpp"

#include <cmath>

namespace ops::LlmPackage::RmsNorm {

udo::Status execute(const Args& args) {
  const udo::Shape shape = args.input.shape();
  const std::size_t width = shape[shape.rank() - 1];
  if (args.output.shape() != shape) return udo::error("the output must have the shape of the input");
  if (args.gain.size() != width) return udo::error("the gain must be as long as a row of the input");
  for (std::size_t row = 0; row < args.input.size(); row += width) {
    float squares = 0.0f;
    for (std::size_t i = row; i < row + width; ++i) squares += args.input.real(i) * args.input.real(i);
    const float factor = 1.0f / std::sqrt(squares / static_cast<float>(width) + args.epsilon);
    for (std::size_t i = 0; i < width; ++i) {
      args.output.setReal(row + i, args.input.real(row + i) * factor * args.gain.real(i));
    }
  }
  return udo::ok;
}

}  // namespace ops::LlmPackage::RmsNorm
