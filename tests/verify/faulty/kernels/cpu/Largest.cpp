// The maximum along the last axis. Fault: the last element is left out.
#include "ops/Largest.hpp"

namespace ops::FaultyPackage::Largest {

udo::Status execute(const Args& args) {
  const std::size_t rows = args.x.shape()[0], width = args.x.shape()[1];
  for (std::size_t row = 0; row < rows; ++row) {
    float largest = args.x[row * width];
    for (std::size_t i = 1; i < width - 1; ++i) largest = std::fmax(largest, args.x[row * width + i]);
    args.y[row] = largest;
  }
  return udo::ok;
}

}  // namespace ops::FaultyPackage::Largest
