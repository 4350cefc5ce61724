// The HTP kernel of Mix.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Mix.hpp"

namespace ops::BothPackage::Mix {

udo::Status execute([[maybe_unused]] const Args& args) {
  // add code here; include/ops/Mix.hpp says what args holds
  return udo::notImplemented("Mix", "src/ops/Mix.cpp");
}

// Several kernels, HVX, slices, costs, tiles and more: define `void hooks(Hooks& op)`, see src/utils/HtpHooks.hpp.

}  // namespace ops::BothPackage::Mix
