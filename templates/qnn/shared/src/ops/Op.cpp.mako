// The kernel of ${op.name}.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/${op.name}.hpp"

namespace ops::${package.name}::${op.name} {

// Called at every execution; must not allocate from the heap.
udo::Status execute([[maybe_unused]] const Args& args) {
  // add code here; see ${op.header} for what args holds
  return udo::notImplemented("${op.name}", "${op.kernel}");
}

}  // namespace ops::${package.name}::${op.name}
