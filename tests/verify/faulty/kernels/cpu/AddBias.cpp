// x + bias along the last axis. Fault: along the first.
#include "ops/AddBias.hpp"

namespace ops::FaultyPackage::AddBias {

udo::Status finalize(const Args&, State*&) { return udo::ok; }

udo::Status execute(const Args& args, State*) {
  const std::size_t block = args.y.size() / args.bias.size();
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = args.x[i] + args.bias[i / block];
  return udo::ok;
}

void free(State*) {}

}  // namespace ops::FaultyPackage::AddBias
