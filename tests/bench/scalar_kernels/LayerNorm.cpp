// The scalar C++ version of a kernel in Python: the baseline for the vectorized one.
#include "ops/LayerNorm.hpp"

#include <cmath>

namespace ops::PythonKernels::LayerNorm {

udo::Status execute(const Args& args) {
  const udo::Shape shape = args.x.shape();
  const std::size_t width = shape[shape.rank() - 1];
  const float count = static_cast<float>(width);
  for (std::size_t row = 0; row < shape.count(); row += width) {
    float sum = 0.0f, squares = 0.0f;
    for (std::size_t k = 0; k < width; ++k) sum += args.x.real(row + k);
    const float mean = sum / count;
    for (std::size_t k = 0; k < width; ++k) {
      const float difference = args.x.real(row + k) - mean;
      squares += difference * difference;
    }
    const float factor = 1.0f / std::sqrt(squares / count + args.epsilon);
    for (std::size_t k = 0; k < width; ++k) {
      args.y.setReal(row + k, (args.x.real(row + k) - mean) * factor * args.gain.real(k) + args.bias.real(k));
    }
  }
  return udo::ok;
}

}  // namespace ops::PythonKernels::LayerNorm
