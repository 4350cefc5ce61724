// The DSP kernel of Scale.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Scale.hpp"

namespace ops::Several::Scale {

struct State {};

udo::Status Scale_createOperation([[maybe_unused]] const Args& args, [[maybe_unused]] State*& state,
                                       [[maybe_unused]] udo::Dsp& dsp) {
  // Prepare here what executeOp needs, with dsp.create<State>(): it must not use the heap.
  return udo::ok;
}

udo::Status Scale_executeOp([[maybe_unused]] const Args& args, [[maybe_unused]] State* state,
                                 [[maybe_unused]] udo::Dsp& dsp) {
  // add code here; include/ops/Scale.hpp says what args holds
  return udo::notImplemented("Scale", "src/ops/Scale.cpp");
}

void Scale_releaseOp(State* state, udo::Dsp& dsp) { dsp.destroy(state); }

}  // namespace ops::Several::Scale
