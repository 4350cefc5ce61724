// Copies its input; -99 is an error.
#include "ops/Mix.hpp"

namespace ops::BothPackage::Mix {

udo::Status execute(const Args& args) {
  if (args.x.real(0) == -99.0f) return udo::error("Mix does not like -99");
  for (std::size_t i = 0; i < args.x.size(); ++i) args.y.setReal(i, args.x.real(i));
  return udo::ok;
}

}  // namespace ops::BothPackage::Mix
