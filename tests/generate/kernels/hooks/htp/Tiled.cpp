#include "ops/Tiled.hpp"

namespace ops::HookPackage::Tiled {

namespace {

udo::Shape legal(const udo::Node&, const udo::Shape& tile) { return tile; }

}  // namespace

udo::Status execute(const Args& args) {
  const std::size_t columns = args.x.shape()[3];
  for (std::size_t i = 0; i < args.x.size(); ++i) args.y[i] = args.x[i] * args.scale + args.row[i % columns];
  return udo::ok;
}

void hooks(Hooks& op) {
  op.tiles<udo::elementwise>();
  op.legalTiles<legal>();
}

}  // namespace ops::HookPackage::Tiled
