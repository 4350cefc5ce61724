// -x. Fault: the offset of x is used for y.
#include "ops/Negate.hpp"

namespace ops::FaultyPackage::Negate {

udo::Status execute(const Args& args) {
  const udo::Quantization from = args.x.quantization();
  const udo::Quantization to{args.y.quantization().scale, from.offset};
  for (std::size_t i = 0; i < args.y.size(); ++i) {
    args.y[i] = static_cast<std::uint8_t>(to.toStored(-from.toReal(args.x[i]), 0, 255));
  }
  return udo::ok;
}

}  // namespace ops::FaultyPackage::Negate
