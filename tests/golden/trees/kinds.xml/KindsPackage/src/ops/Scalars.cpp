// The kernel of Scalars.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Scalars.hpp"

namespace ops::KindsPackage::Scalars {

// Called at every execution; must not allocate from the heap.  include/ops/Scalars.hpp says what args holds.
udo::Status execute([[maybe_unused]] const Args& args) {
  return udo::notImplemented("Scalars", "src/ops/Scalars.cpp");
}

}  // namespace ops::KindsPackage::Scalars
