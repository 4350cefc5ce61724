// The kernel of Words.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Words.hpp"

namespace ops::KindsPackage::Words {

// Called at every execution; must not allocate from the heap.
udo::Status execute([[maybe_unused]] const Args& args) {
  // add code here; see include/ops/Words.hpp for what args holds
  return udo::notImplemented("Words", "src/ops/Words.cpp");
}

}  // namespace ops::KindsPackage::Words
