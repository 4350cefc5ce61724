// max(x, 0). Fault: writes only the positive elements.
#include "ops/Positive.hpp"

namespace ops::FaultyPackage::Positive {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.y.size(); ++i) {
    if (args.x[i] > 0) args.y[i] = args.x[i];
  }
  return udo::ok;
}

}  // namespace ops::FaultyPackage::Positive
