// The kernel of Head.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Head.hpp"

namespace ops::Several::Head {

// Called at every execution; must not allocate from the heap.
udo::Status execute([[maybe_unused]] const Args& args) {
  // add code here; see include/ops/Head.hpp for what args holds
  return udo::notImplemented("Head", "src/ops/Head.cpp");
}

}  // namespace ops::Several::Head
