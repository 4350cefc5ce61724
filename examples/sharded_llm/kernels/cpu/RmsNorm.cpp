// RmsNorm on the CPU.
#include "ops/RmsNorm.hpp"

#include <cmath>

namespace ops::LlmPackage::RmsNorm {

udo::Status finalize(const Args& args, State*&) {
  const udo::Shape shape = args.input.shape();
  if (args.output.shape() != shape) return udo::error("the output must have the shape of the input");
  const bool fits = shape.rank() > 0 && args.gain.size() == shape[shape.rank() - 1];
  return fits ? udo::ok : udo::error("the gain must be as long as a row of the input");
}

udo::Status execute(const Args& args, State*) {
  const std::size_t width = args.gain.size();
  for (std::size_t row = 0; row < args.input.size(); row += width) {
    float squares = 0.0f;
    for (std::size_t i = row; i < row + width; ++i) squares += args.input[i] * args.input[i];
    const float factor = 1.0f / std::sqrt(squares / static_cast<float>(width) + args.epsilon);
    for (std::size_t i = 0; i < width; ++i) args.output[row + i] = args.input[row + i] * factor * args.gain[i];
  }
  return udo::ok;
}

void free(State*) {}

}  // namespace ops::LlmPackage::RmsNorm
