// The kernel of printf.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/printf.hpp"

namespace ops::NastyPackage::printf {

// Called at every execution; must not allocate from the heap.
udo::Status execute([[maybe_unused]] const Args& args) {
  // add code here; see include/ops/printf.hpp for what args holds
  return udo::notImplemented("printf", "src/ops/printf.cpp");
}

}  // namespace ops::NastyPackage::printf
