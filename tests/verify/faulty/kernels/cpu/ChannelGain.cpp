// y = x * gain[c] on NHWC. Fault: x and y are indexed as NCHW.
#include "ops/ChannelGain.hpp"

namespace ops::FaultyPackage::ChannelGain {

udo::Status execute(const Args& args) {
  const auto shape = args.x.shape();
  const std::size_t plane = shape.count(1, 3), channels = shape[3];
  for (std::size_t n = 0; n < shape[0]; ++n) {
    for (std::size_t c = 0; c < channels; ++c) {
      for (std::size_t i = 0; i < plane; ++i) {
        const std::size_t at = (n * channels + c) * plane + i;
        args.y[at] = args.gain[c] * args.x[at];
      }
    }
  }
  return udo::ok;
}

}  // namespace ops::FaultyPackage::ChannelGain
