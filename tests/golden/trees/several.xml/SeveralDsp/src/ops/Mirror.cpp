// The kernel of Mirror.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Mirror.hpp"

namespace ops::Several::Mirror {

// Called at every execution; must not allocate from the heap.
udo::Status execute([[maybe_unused]] const Args& args) {
  // add code here; see include/ops/Mirror.hpp for what args holds
  return udo::notImplemented("Mirror", "src/ops/Mirror.cpp");
}

}  // namespace ops::Several::Mirror
