#include "ops/Bytes.hpp"

namespace ops::TwelvePackage::Bytes {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = static_cast<std::uint8_t>((args.invert ? ~args.x[i] : args.x[i]) & args.mask);
  return udo::ok;
}

}  // namespace ops::TwelvePackage::Bytes
