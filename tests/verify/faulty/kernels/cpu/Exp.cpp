// exp x. Fault: reads one element past the end.
#include "ops/Exp.hpp"

namespace ops::FaultyPackage::Exp {

udo::Status execute(const Args& args) {
  const std::size_t last = args.y.size() - 1;
  for (std::size_t i = 0; i <= last; ++i) args.y[i] = std::exp(args.x[i < last ? i + 1 : last]);
  return udo::ok;
}

}  // namespace ops::FaultyPackage::Exp
