// The kernel of AllTypes.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/AllTypes.hpp"

namespace ops::NastyPackage::AllTypes {

// Called at every execution; must not allocate from the heap.
udo::Status execute([[maybe_unused]] const Args& args) {
  // add code here; see include/ops/AllTypes.hpp for what args holds
  return udo::notImplemented("AllTypes", "src/ops/AllTypes.cpp");
}

}  // namespace ops::NastyPackage::AllTypes
