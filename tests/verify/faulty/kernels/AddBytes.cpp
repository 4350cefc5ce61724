// a + b, at most 255. Fault: it wraps around.
#include "ops/AddBytes.hpp"

namespace ops::FaultyPackage::AddBytes {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = static_cast<std::uint8_t>(args.a[i] + args.b[i]);
  return udo::ok;
}

}  // namespace ops::FaultyPackage::AddBytes
