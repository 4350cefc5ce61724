// The DSP kernel of ${op.name}.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/${op.name}.hpp"

namespace ops::${package.name}::${op.name} {

struct State {};

udo::Status ${op.name}_createOperation([[maybe_unused]] const Args& args, [[maybe_unused]] State*& state,
                                       [[maybe_unused]] udo::Dsp& dsp) {
  // Prepare here what executeOp needs, with dsp.create<State>(): it must not use the heap.
  return udo::ok;
}

udo::Status ${op.name}_executeOp([[maybe_unused]] const Args& args, [[maybe_unused]] State* state,
                                 [[maybe_unused]] udo::Dsp& dsp) {
  // add code here; ${op.header} says what args holds
  return udo::notImplemented("${op.name}", "${op.kernel}");
}

void ${op.name}_releaseOp(State* state, udo::Dsp& dsp) { dsp.destroy(state); }

}  // namespace ops::${package.name}::${op.name}
