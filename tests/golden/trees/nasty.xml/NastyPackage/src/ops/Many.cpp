// The CPU kernel of Many.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Many.hpp"

namespace ops::NastyPackage::Many {

struct State {};

udo::Status finalize([[maybe_unused]] const Args& args, [[maybe_unused]] State*& state) {
  // Check here what the config cannot say, and prepare what execute() needs: it must not use the heap.
  return udo::ok;
}

udo::Status execute([[maybe_unused]] const Args& args, [[maybe_unused]] State* state) {
  // add code here; include/ops/Many.hpp says what args holds
  return udo::notImplemented("Many", "src/ops/Many.cpp");
}

void free(State* state) { delete state; }

}  // namespace ops::NastyPackage::Many
