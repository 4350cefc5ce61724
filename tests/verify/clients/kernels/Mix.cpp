#include "ops/Mix.hpp"

namespace ops::ClientsPackage::Mix {

udo::Status execute(const Args& args) {
  const float sum = 100.0f * args.a + 10.0f * args.b + args.c;
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = sum + args.x[i] * args.w[i % args.w.size()];
  return udo::ok;
}

}  // namespace ops::ClientsPackage::Mix
