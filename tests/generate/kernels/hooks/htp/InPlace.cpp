#include "ops/InPlace.hpp"

namespace ops::HookPackage::InPlace {

udo::Status execute(const Args& args) {
  if (args.x.data() != args.y.data()) return udo::error("not in place");
  for (std::size_t i = 0; i < args.x.size(); ++i) args.y[i] = args.x[i] * args.x[i];
  return udo::ok;
}

void hooks(Hooks& op) { op.kernel<execute>().inPlace(); }

}  // namespace ops::HookPackage::InPlace
