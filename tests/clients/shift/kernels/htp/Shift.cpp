// input + by + 10 * more + 100 * (1 * each[0] + 2 * each[1] + ...)
#include "ops/Shift.hpp"

namespace ops::ShiftPackage::Shift {

udo::Status execute(const Args& args) {
  float shift = static_cast<float>(args.by) + (args.more ? 10.0f : 0.0f);
  for (std::size_t i = 0; args.each && i < args.each.size(); ++i) shift += 100.0f * static_cast<float>((i + 1) * args.each[i]);
  for (std::size_t i = 0; i < args.input.size(); ++i) args.output[i] = args.input[i] + shift;
  return udo::ok;
}

}  // namespace ops::ShiftPackage::Shift
