// The CPU kernel of Words.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Words.hpp"

namespace ops::KindsPackage::Words {

struct State {};

udo::Status finalize([[maybe_unused]] const Args& args, [[maybe_unused]] State*& state) {
  // Check here what the config cannot say, and prepare what execute() needs: it must not use the heap.
  return udo::ok;
}

udo::Status execute([[maybe_unused]] const Args& args, [[maybe_unused]] State* state) {
  // add code here; include/ops/Words.hpp says what args holds
  return udo::notImplemented("Words", "src/ops/Words.cpp");
}

void free(State* state) { delete state; }

}  // namespace ops::KindsPackage::Words
