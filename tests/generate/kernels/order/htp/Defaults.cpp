#include "ops/Defaults.hpp"

namespace ops::OrderPackage::Defaults {

udo::Status execute(const Args& args) {
  const float seen[] = {args.f,
                        static_cast<float>(args.i8),
                        static_cast<float>(args.u32),
                        args.t ? 1.0f : 0.0f,
                        args.w.quantization().toReal(args.w[0]),
                        args.w.quantization().toReal(args.w[1]),
                        args.last};
  std::size_t at = 0;
  for (const float each : seen) args.y[at++] = each;
  return udo::ok;
}

}  // namespace ops::OrderPackage::Defaults
