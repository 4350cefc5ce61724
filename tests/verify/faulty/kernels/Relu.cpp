// max(x, 0). Fault: the offset is subtracted when x is read.
#include "ops/Relu.hpp"

namespace ops::FaultyPackage::Relu {

udo::Status execute(const Args& args) {
  const udo::Quantization from = args.x.quantization(), to = args.y.quantization();
  for (std::size_t i = 0; i < args.y.size(); ++i) {
    const float real = from.scale * static_cast<float>(args.x[i] - from.offset);
    args.y[i] = static_cast<std::uint8_t>(to.toStored(real > 0 ? real : 0, 0, 255));
  }
  return udo::ok;
}

}  // namespace ops::FaultyPackage::Relu
