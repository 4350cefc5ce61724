#include "ops/Chosen.hpp"

namespace ops::HookPackage::Chosen {

namespace {

udo::Status tell(const Args& args, float which) {
  for (std::size_t i = 0; i < args.x.size(); ++i) args.y.setReal(i, which);
  return udo::ok;
}

udo::Status small(const Args& args) { return tell(args, 1.0f); }
udo::Status fixed(const Args& args) { return tell(args, 2.0f); }
float cycles(const udo::Inputs& inputs) { return static_cast<float>(inputs[Tensor::x].shape().count()); }
bool fits(const udo::Inputs& inputs) { return inputs[Tensor::x].shape()[3] < 4; }

}  // namespace

udo::Status execute(const Args& args) { return tell(args, 3.0f); }

void hooks(Hooks& op) {
  op.kernel<small>().when<fits>().costs<cycles>();
  op.kernel<fixed>().takes(Tensor::x, udo::Element::uint8).on(udo::Unit::main);
  op.kernel<execute>();
}

}  // namespace ops::HookPackage::Chosen
