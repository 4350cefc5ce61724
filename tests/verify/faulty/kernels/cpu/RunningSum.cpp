// Sums over the last axis. Fault: the sum is kept between executions.
#include "ops/RunningSum.hpp"

namespace ops::FaultyPackage::RunningSum {

struct State {
  float sums[16] = {};
};

udo::Status prepare(const Args& args, State&) {
  return args.y.size() > 16 ? udo::error("at most 16 rows") : udo::ok;
}

udo::Status execute(const Args& args, State& state) {
  const std::size_t rows = args.x.shape()[0], width = args.x.shape()[1];
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < width; ++i) state.sums[row] += args.x[row * width + i];
    args.y[row] = state.sums[row];
  }
  return udo::ok;
}

}  // namespace ops::FaultyPackage::RunningSum
