// Cumulative sums along the last axis. Fault: along the one before it.
#include "ops/CumulateRows.hpp"

namespace ops::FaultyPackage::CumulateRows {

udo::Status execute(const Args& args) {
  const auto shape = args.x.shape();
  const std::size_t width = shape[shape.rank() - 1], height = shape[shape.rank() - 2];
  for (std::size_t i = 0; i < args.y.size(); ++i) {
    args.y[i] = args.x[i] + (i / width % height == 0 ? 0.0f : args.y[i - width]);
  }
  return udo::ok;
}

}  // namespace ops::FaultyPackage::CumulateRows
