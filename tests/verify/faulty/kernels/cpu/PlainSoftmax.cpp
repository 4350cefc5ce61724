// Softmax along the last axis. Fault: exp of large numbers.
#include "ops/PlainSoftmax.hpp"

namespace ops::FaultyPackage::PlainSoftmax {

udo::Status execute(const Args& args) {
  const auto shape = args.x.shape();
  const std::size_t width = shape[shape.rank() - 1];
  for (std::size_t row = 0; row < args.y.size() / width; ++row) {
    const float* x = args.x.data() + row * width;
    float sum = 0;
    for (std::size_t i = 0; i < width; ++i) sum += std::exp(x[i]);
    for (std::size_t i = 0; i < width; ++i) args.y[row * width + i] = std::exp(x[i]) / sum;
  }
  return udo::ok;
}

}  // namespace ops::FaultyPackage::PlainSoftmax
