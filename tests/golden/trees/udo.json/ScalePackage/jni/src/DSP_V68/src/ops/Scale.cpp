// The HTP kernel of Scale.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Scale.hpp"

namespace ops::ScalePackage::Scale {

udo::Status execute([[maybe_unused]] const Args& args) {
  // add code here; .sdk/htp/include/ops/Scale.hpp says what args holds
  return udo::notImplemented("Scale", "jni/src/DSP_V68/src/ops/Scale.cpp");
}

// Several kernels, HVX, slices, costs, tiles and more: define `void hooks(Hooks& op)`, see src/utils/HtpHooks.hpp.

}  // namespace ops::ScalePackage::Scale
