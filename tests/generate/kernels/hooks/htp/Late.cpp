#include "ops/Late.hpp"

namespace ops::HookPackage::Late {

namespace {

udo::Node rewrite(const udo::Node& op) {
  return op.make("HookPackage::Once", {op.input(0)}, {udo::Definition(op.output(0))});
}

}  // namespace

udo::Status execute(const Args&) { return udo::error("the rewrite was not used"); }

void hooks(Hooks& op) { op.lateRewrite<rewrite>(); }

}  // namespace ops::HookPackage::Late
