// The kernel of Scale.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Scale.hpp"

namespace ops::ScalePackage::Scale {

// Called at every execution; must not allocate from the heap.
udo::Status execute([[maybe_unused]] const Args& args) {
  // add code here; see .sdk/htp/include/ops/Scale.hpp for what args holds
  return udo::notImplemented("Scale", "jni/src/DSP_V68/src/ops/Scale.cpp");
}

}  // namespace ops::ScalePackage::Scale
