#include "ops/Twice.hpp"

namespace ops::HookPackage::Twice {

namespace {

udo::Node rewrite(const udo::Node& op) {
  const udo::Definition same(op.output(0));
  const udo::Node first = op.inputs() > 1 ? op.make("HookPackage::Once", {op.input(0), op.input(1)}, {same})
                                          : op.make("HookPackage::Once", {op.input(0)}, {same});
  const float three = 3.0f;
  const udo::Node constant = op.constant(udo::Definition(QHPI_Float32, {1, 1, 1, 1}), &three);
  return op.make("HookPackage::Once", {first.output(0), constant.output(0)}, {same});
}

}  // namespace

udo::Status execute(const Args&) { return udo::error("the rewrite was not used"); }

void hooks(Hooks& op) { op.earlyRewrite<rewrite>(); }

}  // namespace ops::HookPackage::Twice
