// The kernel of Nasty.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Nasty.hpp"

namespace ops::NastyPackage::Nasty {

// Called at every execution; must not allocate from the heap.
udo::Status execute([[maybe_unused]] const Args& args) {
  // add code here; see include/ops/Nasty.hpp for what args holds
  return udo::notImplemented("Nasty", "src/ops/Nasty.cpp");
}

}  // namespace ops::NastyPackage::Nasty
