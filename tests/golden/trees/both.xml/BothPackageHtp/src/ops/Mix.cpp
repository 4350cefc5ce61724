// The kernel of Mix.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Mix.hpp"

namespace ops::BothPackage::Mix {

// Called at every execution; must not allocate from the heap.  include/ops/Mix.hpp says what args holds.
udo::Status execute([[maybe_unused]] const Args& args) {
  return udo::notImplemented("Mix", "src/ops/Mix.cpp");
}

}  // namespace ops::BothPackage::Mix
