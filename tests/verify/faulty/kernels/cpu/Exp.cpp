// exp x. Fault: reads one element too far.
#include "ops/Exp.hpp"

namespace ops::FaultyPackage::Exp {

udo::Status finalize(const Args&, State*&) { return udo::ok; }

udo::Status execute(const Args& args, State*) {
  const std::size_t last = args.y.size() - 1;
  for (std::size_t i = 0; i <= last; ++i) args.y[i] = std::exp(args.x[i < last ? i + 1 : last]);
  return udo::ok;
}

void free(State*) {}

}  // namespace ops::FaultyPackage::Exp
