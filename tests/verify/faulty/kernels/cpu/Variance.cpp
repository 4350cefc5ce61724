// Mean square distance from the mean, over the last axis. Fault: divides by n - 1.
#include "ops/Variance.hpp"

namespace ops::FaultyPackage::Variance {

udo::Status execute(const Args& args) {
  const std::size_t rows = args.x.shape()[0], width = args.x.shape()[1];
  for (std::size_t row = 0; row < rows; ++row) {
    const float* x = args.x.data() + row * width;
    float mean = 0, sum = 0;
    for (std::size_t i = 0; i < width; ++i) mean += x[i] / static_cast<float>(width);
    for (std::size_t i = 0; i < width; ++i) sum += (x[i] - mean) * (x[i] - mean);
    args.y[row] = sum / static_cast<float>(width - 1);
  }
  return udo::ok;
}

}  // namespace ops::FaultyPackage::Variance
