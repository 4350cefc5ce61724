// The DSP kernel of Mirror.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Mirror.hpp"

namespace ops::Several::Mirror {

struct State {};

udo::Status Mirror_createOperation([[maybe_unused]] const Args& args, [[maybe_unused]] State*& state,
                                       [[maybe_unused]] udo::Dsp& dsp) {
  // Prepare here what executeOp needs, with dsp.create<State>(): it must not use the heap.
  return udo::ok;
}

udo::Status Mirror_executeOp([[maybe_unused]] const Args& args, [[maybe_unused]] State* state,
                                 [[maybe_unused]] udo::Dsp& dsp) {
  // add code here; include/ops/Mirror.hpp says what args holds
  return udo::notImplemented("Mirror", "src/ops/Mirror.cpp");
}

void Mirror_releaseOp(State* state, udo::Dsp& dsp) { dsp.destroy(state); }

}  // namespace ops::Several::Mirror
