#include "ops/Rewritten.hpp"

namespace ops::OrderPackage::Rewritten {
namespace {

udo::Node rewrite(const udo::Node& op) {
  const udo::Definition same(op.output(0));
  if (op.inputs() < 3) return op.make("OrderPackage::Scaled", {op.input(0), op.input(1)}, {same});
  const udo::Node first = op.make("OrderPackage::Scaled", {op.input(0), op.input(1), op.input(2)}, {same});
  return op.make("OrderPackage::Scaled", {first.output(0), op.input(2), op.input(1)}, {same});
}

}  // namespace

udo::Status execute(const Args&) { return udo::error("the rewrite was not used"); }

void hooks(Hooks& op) { op.earlyRewrite<rewrite>(); }

}  // namespace ops::OrderPackage::Rewritten
