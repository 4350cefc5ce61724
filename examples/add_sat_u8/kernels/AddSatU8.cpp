// AddSatU8 byte by byte, for every backend that has no kernel of its own.
#include "ops/AddSatU8.hpp"

namespace ops::AddSatU8Package::AddSatU8 {

udo::Status execute(const Args& args) {
  if (args.b.shape() != args.a.shape() || args.sum.shape() != args.a.shape()) {
    return udo::error("a, b and sum must have one shape");
  }
  const std::size_t size = args.a.size();
  for (std::size_t i = 0; i < size; ++i) {
    const unsigned sum = static_cast<unsigned>(args.a[i]) + args.b[i];
    args.sum[i] = static_cast<std::uint8_t>(sum < 255 ? sum : 255);
  }
  return udo::ok;
}

}  // namespace ops::AddSatU8Package::AddSatU8
