// The CPU kernel of Scale.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Scale.hpp"

namespace ops::ScalePackage::Scale {

struct State {};

udo::Status finalize([[maybe_unused]] const Args& args, [[maybe_unused]] State*& state) {
  // Check here what the config cannot say, and prepare what execute() needs: it must not use the heap.
  return udo::ok;
}

udo::Status execute([[maybe_unused]] const Args& args, [[maybe_unused]] State* state) {
  // add code here; .sdk/cpu/include/ops/Scale.hpp says what args holds
  return udo::notImplemented("Scale", "jni/src/CPU/src/ops/Scale.cpp");
}

void free(State* state) { delete state; }

}  // namespace ops::ScalePackage::Scale
