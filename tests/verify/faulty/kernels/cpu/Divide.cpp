// a / b. Fault: b / a.
#include "ops/Divide.hpp"

namespace ops::FaultyPackage::Divide {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = args.b[i] / args.a[i];
  return udo::ok;
}

}  // namespace ops::FaultyPackage::Divide
