// x + bias along the last axis. Fault: along the first.
#include "ops/AddBias.hpp"

namespace ops::FaultyPackage::AddBias {

udo::Status execute(const Args& args) {
  const std::size_t block = args.y.size() / args.bias.size();
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = args.x[i] + args.bias[i / block];
  return udo::ok;
}

}  // namespace ops::FaultyPackage::AddBias
