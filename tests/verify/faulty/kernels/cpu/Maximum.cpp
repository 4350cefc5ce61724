// max(a, b), NaN if one of them is NaN. Fault: NaN is not propagated.
#include "ops/Maximum.hpp"

namespace ops::FaultyPackage::Maximum {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = std::fmax(args.a[i], args.b[i]);
  return udo::ok;
}

}  // namespace ops::FaultyPackage::Maximum
