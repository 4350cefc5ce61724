#include "ops/Cast.hpp"

namespace ops::TwelvePackage::Cast {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y.setReal(i, args.x.real(i));
  return udo::ok;
}

}  // namespace ops::TwelvePackage::Cast
