// The DSP kernel of Head.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Head.hpp"

namespace ops::Several::Head {

struct State {};

udo::Status Head_createOperation([[maybe_unused]] const Args& args, [[maybe_unused]] State*& state,
                                       [[maybe_unused]] udo::Dsp& dsp) {
  // Prepare here what executeOp needs, with dsp.create<State>(): it must not use the heap.
  return udo::ok;
}

udo::Status Head_executeOp([[maybe_unused]] const Args& args, [[maybe_unused]] State* state,
                                 [[maybe_unused]] udo::Dsp& dsp) {
  // add code here; include/ops/Head.hpp says what args holds
  return udo::notImplemented("Head", "src/ops/Head.cpp");
}

void Head_releaseOp(State* state, udo::Dsp& dsp) { dsp.destroy(state); }

}  // namespace ops::Several::Head
