// ScaleClamp, ported: one kernel for CPU, HTP, and DSP V65 and V66.
#include "ops/ScaleClamp.hpp"

#include <algorithm>

namespace ops::ScaleClampPackage::ScaleClamp {

udo::Status execute(const Args& args) {
  const std::size_t channels = args.gain.size();
  for (std::size_t i = 0; i < args.x.size(); ++i) {
    args.y.setReal(i, std::min(args.x.real(i) * args.gain.real(i % channels), args.limit));
  }
  return udo::ok;
}

}  // namespace ops::ScaleClampPackage::ScaleClamp
