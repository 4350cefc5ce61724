// The kernel of Tensors.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Tensors.hpp"

namespace ops::KindsPackage::Tensors {

// Called at every execution; must not allocate from the heap.
udo::Status execute([[maybe_unused]] const Args& args) {
  // add code here; see include/ops/Tensors.hpp for what args holds
  return udo::notImplemented("Tensors", "src/ops/Tensors.cpp");
}

}  // namespace ops::KindsPackage::Tensors
