// x / 2. Fault: std::round, half away from zero.
#include "ops/Halve.hpp"

namespace ops::FaultyPackage::Halve {

udo::Status execute(const Args& args) {
  const udo::Quantization from = args.x.quantization(), to = args.y.quantization();
  for (std::size_t i = 0; i < args.y.size(); ++i) {
    const float stored = std::round(from.toReal(args.x[i]) / 2 / to.scale) - static_cast<float>(to.offset);
    args.y[i] = static_cast<std::uint8_t>(std::fmin(std::fmax(stored, 0.0f), 255.0f));
  }
  return udo::ok;
}

}  // namespace ops::FaultyPackage::Halve
