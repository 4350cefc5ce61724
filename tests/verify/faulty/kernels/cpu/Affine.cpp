// gain * x + shift. Fault: the two are swapped.
#include "ops/Affine.hpp"

namespace ops::FaultyPackage::Affine {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = args.shift * args.x[i] + args.gain;
  return udo::ok;
}

}  // namespace ops::FaultyPackage::Affine
