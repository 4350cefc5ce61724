// The CPU kernel of printf.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/printf.hpp"

namespace ops::NastyPackage::printf {

struct State {};

udo::Status finalize([[maybe_unused]] const Args& args, [[maybe_unused]] State*& state) {
  // Check here what the config cannot say, and prepare what execute() needs: it must not use the heap.
  return udo::ok;
}

udo::Status execute([[maybe_unused]] const Args& args, [[maybe_unused]] State* state) {
  // add code here; include/ops/printf.hpp says what args holds
  return udo::notImplemented("printf", "src/ops/printf.cpp");
}

void free(State* state) { delete state; }

}  // namespace ops::NastyPackage::printf
