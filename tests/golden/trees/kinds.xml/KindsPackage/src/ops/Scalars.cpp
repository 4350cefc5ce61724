// The kernel of Scalars.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Scalars.hpp"

namespace ops::KindsPackage::Scalars {

// Called at every execution; must not allocate from the heap.
udo::Status execute([[maybe_unused]] const Args& args) {
  // add code here; see include/ops/Scalars.hpp for what args holds
  return udo::notImplemented("Scalars", "src/ops/Scalars.cpp");
}

}  // namespace ops::KindsPackage::Scalars
