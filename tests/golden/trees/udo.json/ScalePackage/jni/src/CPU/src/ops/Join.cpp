// The CPU kernel of Join.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Join.hpp"

namespace ops::ScalePackage::Join {

struct State {};

udo::Status finalize([[maybe_unused]] const Args& args, [[maybe_unused]] State*& state) {
  // Check here what the config cannot say, and prepare what execute() needs: it must not use the heap.
  return udo::ok;
}

udo::Status execute([[maybe_unused]] const Args& args, [[maybe_unused]] State* state) {
  // add code here; .sdk/cpu/include/ops/Join.hpp says what args holds
  return udo::notImplemented("Join", "jni/src/CPU/src/ops/Join.cpp");
}

void free(State* state) { delete state; }

}  // namespace ops::ScalePackage::Join
