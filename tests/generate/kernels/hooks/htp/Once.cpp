#include "ops/Once.hpp"

namespace ops::HookPackage::Once {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.x.size(); ++i) args.y[i] = args.x[i] + args.add;
  return udo::ok;
}

}  // namespace ops::HookPackage::Once
