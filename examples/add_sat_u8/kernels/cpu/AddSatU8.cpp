// AddSatU8 on the CPU.
#include "ops/AddSatU8.hpp"

namespace ops::AddSatU8Package::AddSatU8 {

udo::Status finalize(const Args& args, State*&) {
  const bool same = args.b.shape() == args.a.shape() && args.sum.shape() == args.a.shape();
  return same ? udo::ok : udo::error("a, b and sum must have one shape");
}

udo::Status execute(const Args& args, State*) {
  for (std::size_t i = 0; i < args.a.size(); ++i) {
    const unsigned sum = static_cast<unsigned>(args.a[i]) + args.b[i];
    args.sum[i] = static_cast<std::uint8_t>(sum < 255 ? sum : 255);
  }
  return udo::ok;
}

void free(State*) {}

}  // namespace ops::AddSatU8Package::AddSatU8
