#include "ops/Untiled.hpp"

namespace ops::HookPackage::Untiled {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.x.size(); ++i) args.y[i] = args.x[i];
  return udo::ok;
}

}  // namespace ops::HookPackage::Untiled
