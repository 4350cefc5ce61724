// x * x. Fault: only whole vectors of 32.
#include "ops/Squares.hpp"

namespace ops::FaultyPackage::Squares {

udo::Status execute(const Args& args) {
  for (std::size_t vector = 0; vector < args.y.size() / 32; ++vector) {
    for (std::size_t i = vector * 32; i < vector * 32 + 32; ++i) args.y[i] = args.x[i] * args.x[i];
  }
  return udo::ok;
}

}  // namespace ops::FaultyPackage::Squares
