// tanh x, without a fault: no cause may be found.
#include "ops/Right.hpp"

namespace ops::FaultyPackage::Right {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = std::tanh(args.x[i]);
  return udo::ok;
}

}  // namespace ops::FaultyPackage::Right
