#include "ops/ScaleBy.hpp"

namespace ops::ScaleByPackage::ScaleBy {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = args.x[i] * args.by[0];
  return udo::ok;
}

}  // namespace ops::ScaleByPackage::ScaleBy
