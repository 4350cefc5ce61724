#include "ops/Scale.hpp"

namespace ops::TwelvePackage::Scale {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = args.x[i] * args.by;
  return udo::ok;
}

}  // namespace ops::TwelvePackage::Scale
