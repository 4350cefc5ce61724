// tanh x, by a slightly inexact quotient: a fault without a name.
#include "ops/Nearly.hpp"

namespace ops::FaultyPackage::Nearly {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.y.size(); ++i) {
    const float x = args.x[i];
    args.y[i] = x * (27 + x * x) / (27 + 9 * x * x);
  }
  return udo::ok;
}

}  // namespace ops::FaultyPackage::Nearly
