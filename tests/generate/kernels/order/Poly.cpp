#include "ops/Poly.hpp"

namespace ops::OrderPackage::Poly {

udo::Status execute(const Args& args) {
  const float c = args.has_c ? args.c : 9.0f;
  const float sum = 1000 * args.a + 100 * args.b + 10 * c + 2 * args.d[0] + args.d[1];
  for (std::size_t i = 0; i < args.x.size(); ++i) args.y[i] = args.x[i] + sum;
  return udo::ok;
}

}  // namespace ops::OrderPackage::Poly
