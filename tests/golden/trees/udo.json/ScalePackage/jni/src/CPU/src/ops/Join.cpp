// The kernel of Join.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Join.hpp"

namespace ops::ScalePackage::Join {

// Called at every execution; must not allocate from the heap.
udo::Status execute([[maybe_unused]] const Args& args) {
  // add code here; see .sdk/cpu/include/ops/Join.hpp for what args holds
  return udo::notImplemented("Join", "jni/src/CPU/src/ops/Join.cpp");
}

}  // namespace ops::ScalePackage::Join
