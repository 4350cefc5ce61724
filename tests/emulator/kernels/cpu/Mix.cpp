// All arguments affect the outputs: elements go into `y`, ranks, sizes and counts into `seen`.
#include "ops/Mix.hpp"

namespace ops::EqualityPackage::Mix {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.y.size(); ++i) {
    float value = args.scale * static_cast<float>(args.x.real(i)) + static_cast<float>(args.shift);
    value += args.row[i % args.row.size()];
    if (args.bias) value += args.bias[i % args.bias.size()];
    for (std::size_t k = 0; k < args.parts.size(); ++k) value += args.parts[k][i % args.parts[k].size()] * static_cast<float>(k + 1);
    args.y.setReal(i, args.negate ? -value : value);
  }
  float seen[8] = {};
  seen[0] = static_cast<float>(args.x.shape().rank());
  seen[1] = static_cast<float>(args.x.size());
  seen[2] = args.bias ? static_cast<float>(args.bias.size()) : -1;
  seen[3] = static_cast<float>(args.parts.size());
  for (std::size_t k = 0; k < args.parts.size(); ++k) seen[4] = seen[4] * 7 + static_cast<float>(args.parts[k].shape().rank());
  seen[5] = static_cast<float>(args.row.size());
  seen[6] = static_cast<float>(args.y.shape().rank());
  seen[7] = static_cast<float>(args.x.shape()[0]);
  for (std::size_t i = 0; i < args.seen.size(); ++i) args.seen[i] = i < 8 ? seen[i] : 0;
  return udo::ok;
}

}  // namespace ops::EqualityPackage::Mix
