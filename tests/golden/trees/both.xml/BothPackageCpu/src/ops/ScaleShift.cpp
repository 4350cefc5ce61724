// The kernel of ScaleShift.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/ScaleShift.hpp"

namespace ops::BothPackage::ScaleShift {

// Called at every execution; must not allocate from the heap.
udo::Status execute([[maybe_unused]] const Args& args) {
  // add code here; see include/ops/ScaleShift.hpp for what args holds
  return udo::notImplemented("ScaleShift", "src/ops/ScaleShift.cpp");
}

}  // namespace ops::BothPackage::ScaleShift
