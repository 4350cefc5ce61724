// x, or alpha * x. Fault: alpha always has its default.
#include "ops/LeakyRelu.hpp"

namespace ops::FaultyPackage::LeakyRelu {

udo::Status execute(const Args& args) {
  const float alpha = 0.01f;
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = args.x[i] > 0 ? args.x[i] : alpha * args.x[i];
  return udo::ok;
}

}  // namespace ops::FaultyPackage::LeakyRelu
