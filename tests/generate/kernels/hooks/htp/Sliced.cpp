#include "ops/Sliced.hpp"

namespace ops::HookPackage::Sliced {

udo::Status part(const Args& args, const udo::Slice& slice) {
  const auto [begin, end] = slice.of(args.x.size(), 32);
  for (std::size_t i = begin; i < end; ++i) args.y[i] = args.x[i] * 2.0f;
  auto* done = static_cast<std::uint32_t*>(slice.shared());
  if (done == nullptr) return udo::error("no shared memory");
  return *done == 0 ? udo::ok : udo::error("the shared memory is %u, not zero", *done);
}

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.x.size(); ++i) args.y[i] = -1.0f;
  return udo::ok;
}

void hooks(Hooks& op) { op.kernel<part>().sliced(64); }

}  // namespace ops::HookPackage::Sliced
