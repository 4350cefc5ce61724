// The CPU kernel of ScaleShift.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/ScaleShift.hpp"

namespace ops::BothPackage::ScaleShift {

struct State {};

udo::Status finalize([[maybe_unused]] const Args& args, [[maybe_unused]] State*& state) {
  // Check here what the config cannot say, and prepare what execute() needs: it must not use the heap.
  return udo::ok;
}

udo::Status execute([[maybe_unused]] const Args& args, [[maybe_unused]] State* state) {
  // add code here; include/ops/ScaleShift.hpp says what args holds
  return udo::notImplemented("ScaleShift", "src/ops/ScaleShift.cpp");
}

void free(State* state) { delete state; }

}  // namespace ops::BothPackage::ScaleShift
