#include "ops/Signed8.hpp"

namespace ops::TwelvePackage::Signed8 {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = static_cast<std::uint8_t>(
        args.y.quantization().toStored(-args.x.quantization().toReal(args.x[i]), 0, 255));
  return udo::ok;
}

}  // namespace ops::TwelvePackage::Signed8
