// a * b. Fault: multiplies by the scale of y instead of dividing by it.
#include "ops/Multiply.hpp"

namespace ops::FaultyPackage::Multiply {

udo::Status execute(const Args& args) {
  const udo::Quantization a = args.a.quantization(), b = args.b.quantization(), y = args.y.quantization();
  for (std::size_t i = 0; i < args.y.size(); ++i) {
    const float stored = std::nearbyint(a.toReal(args.a[i]) * b.toReal(args.b[i]) * y.scale);
    args.y[i] = static_cast<std::uint8_t>(std::fmin(std::fmax(stored - static_cast<float>(y.offset), 0.0f), 255.0f));
  }
  return udo::ok;
}

}  // namespace ops::FaultyPackage::Multiply
