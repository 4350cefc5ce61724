// max(x, 0). Fault: writes the positive ones alone.
#include "ops/Positive.hpp"

namespace ops::FaultyPackage::Positive {

udo::Status finalize(const Args&, State*&) { return udo::ok; }

udo::Status execute(const Args& args, State*) {
  for (std::size_t i = 0; i < args.y.size(); ++i) {
    if (args.x[i] > 0) args.y[i] = args.x[i];
  }
  return udo::ok;
}

void free(State*) {}

}  // namespace ops::FaultyPackage::Positive
