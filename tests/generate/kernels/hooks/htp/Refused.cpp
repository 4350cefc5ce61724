#include "ops/Refused.hpp"

namespace ops::HookPackage::Refused {

namespace {

udo::Node rewrite(const udo::Node& op) {
  return op.input(0).shape()[3] == 5 ? op.refuse("five columns are too many") : op;
}

}  // namespace

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.x.size(); ++i) args.y[i] = args.x[i];
  return udo::ok;
}

void hooks(Hooks& op) { op.earlyRewrite<rewrite>(); }

}  // namespace ops::HookPackage::Refused
