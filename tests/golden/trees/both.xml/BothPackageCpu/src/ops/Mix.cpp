// The kernel of Mix.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Mix.hpp"

namespace ops::BothPackage::Mix {

// Called at every execution; must not allocate from the heap.
udo::Status execute([[maybe_unused]] const Args& args) {
  // add code here; see include/ops/Mix.hpp for what args holds
  return udo::notImplemented("Mix", "src/ops/Mix.cpp");
}

}  // namespace ops::BothPackage::Mix
