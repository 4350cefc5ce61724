#include "ops/Kinds.hpp"

namespace ops::OrderPackage::Kinds {

udo::Status execute(const Args& args) {
  const float scalars[] = {args.f,
                           static_cast<float>(args.i8),
                           static_cast<float>(args.u8),
                           static_cast<float>(args.i16),
                           static_cast<float>(args.u16),
                           static_cast<float>(args.i32),
                           static_cast<float>(args.u32),
                           args.t ? 1.0f : 0.0f};
  std::size_t at = 0;
  for (const float scalar : scalars) args.y[at++] = scalar;
  args.y[at++] = args.wi8.quantization().toReal(args.wi8[1]);
  args.y[at++] = args.wu8.quantization().toReal(args.wu8[1]);
  args.y[at++] = args.wi16.quantization().toReal(args.wi16[1]);
  args.y[at++] = static_cast<float>(args.wi32[1]);
  args.y[at++] = static_cast<float>(args.wh[1]);
  return udo::ok;
}

}  // namespace ops::OrderPackage::Kinds
