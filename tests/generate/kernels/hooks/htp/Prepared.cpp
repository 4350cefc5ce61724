#include "ops/Prepared.hpp"

namespace ops::HookPackage::Prepared {

struct Table {
  std::uint32_t calls;
  std::uint8_t values[256];
};

udo::Status prepare(const Args& args, Table& table) {
  ++table.calls;
  const udo::Quantization in = args.x.quantization();
  for (int i = 0; i < 256; ++i) {
    float real = 1.0f;
    for (int n = 0; n < args.power; ++n) real *= in.toReal(i);
    table.values[i] = static_cast<std::uint8_t>(args.y.quantization().toStored(real, 0, 255));
  }
  return args.power < 9 ? udo::ok : udo::error("power %d is too high", args.power);
}

udo::Status lookUp(const Args& args, const Table& table) {
  if (table.calls != 1) return udo::error("prepared %u times", table.calls);
  for (std::size_t i = 0; i < args.x.size(); ++i) args.y[i] = table.values[args.x[i]];
  return udo::ok;
}

udo::Status execute(const Args&) { return udo::error("this kernel must not run"); }

void hooks(Hooks& op) { op.kernel<prepare, lookUp>(); }

}  // namespace ops::HookPackage::Prepared
