// a + b, modulo 256. Fault: at most 255.
#include "ops/WrapBytes.hpp"

namespace ops::FaultyPackage::WrapBytes {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.y.size(); ++i) {
    const int sum = args.a[i] + args.b[i];
    args.y[i] = static_cast<std::uint8_t>(sum < 255 ? sum : 255);
  }
  return udo::ok;
}

}  // namespace ops::FaultyPackage::WrapBytes
