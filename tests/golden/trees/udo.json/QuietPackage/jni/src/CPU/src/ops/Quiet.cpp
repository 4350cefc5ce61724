// The kernel of Quiet.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Quiet.hpp"

namespace ops::QuietPackage::Quiet {

// Called at every execution; must not allocate from the heap.
udo::Status execute([[maybe_unused]] const Args& args) {
  // add code here; see .sdk/cpu/include/ops/Quiet.hpp for what args holds
  return udo::notImplemented("Quiet", "jni/src/CPU/src/ops/Quiet.cpp");
}

}  // namespace ops::QuietPackage::Quiet
