// The kernel of AllTypes.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/AllTypes.hpp"

namespace ops::NastyPackage::AllTypes {

// Called at every execution; must not allocate from the heap.  include/ops/AllTypes.hpp says what args holds.
udo::Status execute([[maybe_unused]] const Args& args) {
  return udo::notImplemented("AllTypes", "src/ops/AllTypes.cpp");
}

}  // namespace ops::NastyPackage::AllTypes
