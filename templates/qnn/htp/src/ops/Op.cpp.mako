// The HTP kernel of ${op.name}.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/${op.name}.hpp"

namespace ops::${package.name}::${op.name} {

udo::Status execute([[maybe_unused]] const Args& args) {
  // add code here; ${op.header} says what args holds
  return udo::notImplemented("${op.name}", "${op.kernel}");
}

// Several kernels, HVX, slices, costs, tiles and more: define `void hooks(Hooks& op)`, see src/utils/HtpHooks.hpp.

}  // namespace ops::${package.name}::${op.name}
