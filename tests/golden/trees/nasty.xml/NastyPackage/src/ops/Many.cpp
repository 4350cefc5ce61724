// The kernel of Many.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Many.hpp"

namespace ops::NastyPackage::Many {

// Called at every execution; must not allocate from the heap.
udo::Status execute([[maybe_unused]] const Args& args) {
  // add code here; see include/ops/Many.hpp for what args holds
  return udo::notImplemented("Many", "src/ops/Many.cpp");
}

}  // namespace ops::NastyPackage::Many
