#include "ops/Widen.hpp"

namespace ops::TwelvePackage::Widen {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = static_cast<std::uint16_t>(
        args.y.quantization().toStored(args.x.quantization().toReal(args.x[i]), 0, 65535));
  return udo::ok;
}

}  // namespace ops::TwelvePackage::Widen
