// The scalar C++ version of a kernel in Python: the baseline for the vectorized one.
#include "ops/Softmax.hpp"

#include <algorithm>
#include <cmath>

namespace ops::PythonKernels::Softmax {

udo::Status execute(const Args& args) {
  const udo::Shape shape = args.x.shape();
  const std::size_t width = shape[shape.rank() - 1];
  for (std::size_t row = 0; row < shape.count(); row += width) {
    float largest = args.x.real(row);
    for (std::size_t i = row; i < row + width; ++i) largest = std::max(largest, args.x.real(i));
    float sum = 0.0f;
    for (std::size_t i = row; i < row + width; ++i) sum += std::exp(args.x.real(i) - largest);
    for (std::size_t i = row; i < row + width; ++i) args.y.setReal(i, std::exp(args.x.real(i) - largest) / sum);
  }
  return udo::ok;
}

}  // namespace ops::PythonKernels::Softmax
