// The CPU kernel of ${op.name}.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/${op.name}.hpp"

namespace ops::${package.name}::${op.name} {

struct State {};

udo::Status finalize([[maybe_unused]] const Args& args, [[maybe_unused]] State*& state) {
  // Check here what the config cannot say, and prepare what execute() needs: it must not use the heap.
  return udo::ok;
}

udo::Status execute([[maybe_unused]] const Args& args, [[maybe_unused]] State* state) {
  // add code here; ${op.header} says what args holds
  return udo::notImplemented("${op.name}", "${op.kernel}");
}

void free(State* state) { delete state; }

}  // namespace ops::${package.name}::${op.name}
