// The scalar C++ version of a kernel in Python: the baseline for the vectorized one.
#include "ops/RmsNorm.hpp"

#include <cmath>

namespace ops::PythonKernels::RmsNorm {

udo::Status execute(const Args& args) {
  const udo::Shape shape = args.x.shape();
  const std::size_t width = shape[shape.rank() - 1];
  for (std::size_t row = 0; row < shape.count(); row += width) {
    float squares = 0.0f;
    for (std::size_t k = 0; k < width; ++k) squares += args.x.real(row + k) * args.x.real(row + k);
    const float factor = 1.0f / std::sqrt(squares / static_cast<float>(width) + args.epsilon);
    for (std::size_t k = 0; k < width; ++k) {
      args.y.setReal(row + k, args.x.real(row + k) * factor * args.gain.real(k));
    }
  }
  return udo::ok;
}

}  // namespace ops::PythonKernels::RmsNorm
