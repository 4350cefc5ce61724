// Sums over the last axis. Fault: the sum is kept between executions.
#include "ops/RunningSum.hpp"

namespace ops::FaultyPackage::RunningSum {

struct State {
  float sums[16] = {};
};

udo::Status finalize(const Args& args, State*& state) {
  if (args.y.size() > 16) return udo::error("at most 16 rows");
  state = new State;
  return udo::ok;
}

udo::Status execute(const Args& args, State* state) {
  const std::size_t rows = args.x.shape()[0], width = args.x.shape()[1];
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < width; ++i) state->sums[row] += args.x[row * width + i];
    args.y[row] = state->sums[row];
  }
  return udo::ok;
}

void free(State* state) { delete state; }

}  // namespace ops::FaultyPackage::RunningSum
