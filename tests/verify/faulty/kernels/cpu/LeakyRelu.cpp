// x, or alpha * x. Fault: alpha is what it is by default.
#include "ops/LeakyRelu.hpp"

namespace ops::FaultyPackage::LeakyRelu {

udo::Status finalize(const Args&, State*&) { return udo::ok; }

udo::Status execute(const Args& args, State*) {
  const float alpha = 0.01f;
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = args.x[i] > 0 ? args.x[i] : alpha * args.x[i];
  return udo::ok;
}

void free(State*) {}

}  // namespace ops::FaultyPackage::LeakyRelu
