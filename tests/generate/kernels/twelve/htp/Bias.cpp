#include "ops/Bias.hpp"

namespace ops::TwelvePackage::Bias {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = args.x[i] + args.bias[i % args.bias.size()];
  return udo::ok;
}

}  // namespace ops::TwelvePackage::Bias
