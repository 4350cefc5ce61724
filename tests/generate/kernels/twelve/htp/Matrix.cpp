#include "ops/Matrix.hpp"

namespace ops::TwelvePackage::Matrix {

udo::Status execute(const Args& args) {
  const std::size_t rows = args.weights.shape()[2];
  const std::size_t columns = args.weights.shape()[3];
  for (std::size_t n = 0; n < args.x.size() / rows; ++n) {
    for (std::size_t c = 0; c < columns; ++c) {
      float sum = args.mode == 1 ? 0.0f : 1.0f;
      for (std::size_t r = 0; r < rows; ++r) sum += args.x[n * rows + r] * args.weights[r * columns + c];
      args.y[n * columns + c] = sum;
    }
  }
  return udo::ok;
}

}  // namespace ops::TwelvePackage::Matrix
