#include "ops/FiveThree.hpp"

namespace ops::TwelvePackage::FiveThree {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.sum.size(); ++i) {
    const float c = args.c.quantization().toReal(args.c[i]);
    const float e = args.e.quantization().toReal(args.e[i]);
    args.sum[i] = args.scale * (args.a[i] + static_cast<float>(args.b[i]) + c + static_cast<float>(args.d[i]) + e);
    args.least[i] = static_cast<std::uint8_t>(args.least.quantization().toStored(c < e ? c : e, 0, 255));
    args.whole[i] = args.d[i] + args.offset;
  }
  return udo::ok;
}

}  // namespace ops::TwelvePackage::FiveThree
