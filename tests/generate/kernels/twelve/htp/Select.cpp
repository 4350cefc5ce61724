#include "ops/Select.hpp"

namespace ops::TwelvePackage::Select {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = args.which[i] != 0 ? args.a[i] : args.b[i];
  return udo::ok;
}

}  // namespace ops::TwelvePackage::Select
