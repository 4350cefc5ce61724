// a times b. Fault: adds to the old content of the output.
#include "ops/MatMul.hpp"

namespace ops::FaultyPackage::MatMul {

udo::Status execute(const Args& args) {
  const std::size_t rows = args.y.shape()[0], columns = args.y.shape()[1], length = args.a.shape()[1];
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      for (std::size_t k = 0; k < length; ++k) {
        args.y[row * columns + column] += args.a[row * length + k] * args.b[k * columns + column];
      }
    }
  }
  return udo::ok;
}

}  // namespace ops::FaultyPackage::MatMul
