// The mean over H and W of NHWC. Fault: x is read as NCHW.
#include "ops/MeanOfImage.hpp"

namespace ops::FaultyPackage::MeanOfImage {

udo::Status execute(const Args& args) {
  const auto shape = args.x.shape();
  const std::size_t plane = shape.count(1, 3), channels = shape[3];
  for (std::size_t row = 0; row < shape[0] * channels; ++row) {
    float sum = 0;
    for (std::size_t i = 0; i < plane; ++i) sum += args.x[row * plane + i];
    args.y[row] = sum / static_cast<float>(plane);
  }
  return udo::ok;
}

}  // namespace ops::FaultyPackage::MeanOfImage
