// Writes its arguments to its outputs.
#include "ops/ScaleShift.hpp"

namespace ops::BothPackage::ScaleShift {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.in_0.size(); ++i) args.out_0[i] = args.in_0[i] + static_cast<float>(args.in_1[0]);
  float* seen = args.out_1.data();
  seen[0] = args.weights[0];
  seen[1] = args.weights[args.weights.size() - 1];
  seen[2] = static_cast<float>(args.mode);
  seen[3] = args.flag ? 1.0f : 0.0f;
  seen[4] = args.has_shift ? 1.0f : 0.0f;
  seen[5] = static_cast<float>(args.shift);
  seen[6] = static_cast<float>(args.in_1.size());
  return udo::ok;
}

}  // namespace ops::BothPackage::ScaleShift
