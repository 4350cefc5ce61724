// x as fixed point. Fault: a cast, which truncates.
#include "ops/Quantize.hpp"

namespace ops::FaultyPackage::Quantize {

udo::Status execute(const Args& args) {
  const udo::Quantization grid = args.y.quantization();
  for (std::size_t i = 0; i < args.y.size(); ++i) {
    const float stored = args.x[i] / grid.scale - static_cast<float>(grid.offset);
    args.y[i] = static_cast<std::uint8_t>(std::fmin(std::fmax(stored, 0.0f), 255.0f));
  }
  return udo::ok;
}

}  // namespace ops::FaultyPackage::Quantize
