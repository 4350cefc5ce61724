// The DSP kernel of Head.  This file is yours: udogen wrote it once and keeps your changes.
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
