// 255 - x. Fault: only whole vectors of 128, in each row.
#include "ops/InvertBytes.hpp"

namespace ops::FaultyPackage::InvertBytes {

udo::Status execute(const Args& args) {
  const auto shape = args.x.shape();
  const std::size_t width = shape[shape.rank() - 1];
  for (std::size_t row = 0; row < args.y.size() / width; ++row) {
    for (std::size_t i = 0; i < width / 128 * 128; ++i) {
      args.y[row * width + i] = static_cast<std::uint8_t>(255 - args.x[row * width + i]);
    }
  }
  return udo::ok;
}

}  // namespace ops::FaultyPackage::InvertBytes
