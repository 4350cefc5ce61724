#include "ops/HalfSquare.hpp"

namespace ops::TwelvePackage::HalfSquare {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = udo::Half(static_cast<float>(args.x[i]) * static_cast<float>(args.x[i]));
  return udo::ok;
}

}  // namespace ops::TwelvePackage::HalfSquare
