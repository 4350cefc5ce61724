// x between low and high. Fault: high is a constant.
#include "ops/HardClip.hpp"

namespace ops::FaultyPackage::HardClip {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = std::fmin(std::fmax(args.x[i], args.low), 0.75f);
  return udo::ok;
}

}  // namespace ops::FaultyPackage::HardClip
