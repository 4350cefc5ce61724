// The HTP kernel of ScaleShift.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/ScaleShift.hpp"

namespace ops::BothPackage::ScaleShift {

udo::Status execute([[maybe_unused]] const Args& args) {
  // add code here; include/ops/ScaleShift.hpp says what args holds
  return udo::notImplemented("ScaleShift", "src/ops/ScaleShift.cpp");
}

// Several kernels, HVX, slices, costs, tiles and more: define `void hooks(Hooks& op)`, see src/utils/HtpHooks.hpp.

}  // namespace ops::BothPackage::ScaleShift
