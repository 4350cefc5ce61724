// Rewrites and tiles: where packages take part in the preparation.
#include <algorithm>
#include <set>

#include "layout.hpp"
#include "preparation.hpp"

namespace emulator {
namespace {

constexpr std::size_t mostRewrites = 20000;
constexpr Qnn_ErrorHandle_t refused = QNN_GRAPH_ERROR_MEM_ALLOC;  // 1002: libQnnHtp's answer to all of this

std::string titleOf(const QHPI_Op& op) { return "node `" + op.node + "` (" + op.name + ")"; }

/// The first error that a node needs, itself included.
const QHPI_Op* errorIn(const QHPI_Op* op) {
  std::vector<const QHPI_Op*> open{op};
  std::set<const QHPI_Op*> seen;
  while (!open.empty()) {
    const QHPI_Op* const each = open.back();
    open.pop_back();
    if (!seen.insert(each).second) continue;
    if (each->kind == OpKind::error) return each;
    for (const QHPI_OpRef& input : each->inputs) open.push_back(input.op);
  }
  return nullptr;
}

std::size_t largestOf(const QHPI_Op& op) {
  std::size_t largest = 0;
  for (const QHPI_OpRef& input : op.inputs) {
    if (input.op->kind != OpKind::constant) largest = std::max(largest, bytesOf(definitionOf(input)));
  }
  for (const QHPI_OutputDef& output : op.outputs) largest = std::max(largest, bytesOf(output));
  return largest;
}

std::size_t sumOf(const QHPI_Op& op) {
  std::size_t sum = 0;
  for (const QHPI_OpRef& input : op.inputs) sum += bytesOf(definitionOf(input));
  for (const QHPI_OutputDef& output : op.outputs) sum += bytesOf(output);
  return sum;
}

/// Whether all tensors of every op that was made for a tile (its number is higher than `before`) fit in TCM together.
bool fits(const QHPI_Op* root, std::uint32_t before, std::size_t tcm) {
  std::vector<const QHPI_Op*> open{root};
  while (!open.empty()) {
    const QHPI_Op* const each = open.back();
    open.pop_back();
    if (each->id <= before) continue;
    if (each->kind == OpKind::op && sumOf(*each) > tcm) return false;
    for (const QHPI_OpRef& input : each->inputs) open.push_back(input.op);
  }
  return true;
}

}  // namespace

Qnn_ErrorHandle_t Preparation::replace(QHPI_Op* old, const QHPI_Op* with, const char* stage) {
  if (with == nullptr) {
    logger.error("%s: its %s answered NULL", titleOf(*old).c_str(), stage);
    return refused;
  }
  if (const QHPI_Op* const error = errorIn(with)) {
    logger.error("%s: %s yields error: %s", titleOf(*old).c_str(), stage, error->message.c_str());
    return refused;
  }
  if (with == old) return QNN_SUCCESS;
  if (with->outputs.size() != old->outputs.size()) {
    logger.error("%s: its %s puts %s with %zu outputs in its place, it has %zu", titleOf(*old).c_str(), stage,
                 with->name.c_str(), with->outputs.size(), old->outputs.size());
    return refused;
  }
  for (std::size_t i = 0; i < old->outputs.size(); ++i) {
    const QHPI_OutputDef &was = old->outputs[i], &is = with->outputs[i];
    if (was.type == is.type && sameShape(was.shape, is.shape)) continue;
    logger.error("%s: its %s changes output %zu to type %u, shape %s; it is type %u, shape %s", titleOf(*old).c_str(),
                 stage, i, is.type, textOf(is.shape).c_str(), was.type, textOf(was.shape).c_str());
    return refused;
  }
  // Nodes of the replacement may read what they replace: only those that were there before are turned to it.
  std::set<const QHPI_Op*> inside;
  std::vector<const QHPI_Op*> open{with};
  while (!open.empty()) {
    const QHPI_Op* const each = open.back();
    open.pop_back();
    if (each == old || each->id < old->id || !inside.insert(each).second) continue;
    for (const QHPI_OpRef& input : each->inputs) open.push_back(input.op);
  }
  for (const auto& each : ops_) {
    if (inside.count(each.get()) != 0) continue;
    for (QHPI_OpRef& input : each->inputs) {
      if (input.op == old) input.op = with;
    }
  }
  for (Result& result : results) {
    if (result.from.op == old) result.from.op = with;
  }
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t Preparation::rewrite(bool early) {
  const char* const stage = early ? "early rewrite" : "late rewrite";
  std::set<const QHPI_Op*> asked;
  for (bool changed = true; changed;) {
    changed = false;
    for (QHPI_Op* const op : order()) {
      if (op->kind != OpKind::op || !asked.insert(op).second) continue;
      const QHPI_RewriteOpFunc function = early ? op->info->early_rewrite : op->info->late_rewrite;
      if (function == nullptr) continue;
      if (asked.size() > mostRewrites) {
        logger.error("%s: its %s makes new nodes without end", titleOf(*op).c_str(), stage);
        return refused;
      }
      const QHPI_Op* const with = function(op);
      const Qnn_ErrorHandle_t code = replace(op, with, stage);
      if (code != QNN_SUCCESS) return code;
      if (with == op) continue;
      changed = true;
      break;  // the order is another now
    }
  }
  return QNN_SUCCESS;
}

namespace {

/// One op, cut along a grid.
class Tiles {
 public:
  Tiles(QHPI_Op* op, const QHPI_Shape& tile) : op_(op), tile_(tile), whole_(op->outputs[op->info->tile_output].shape) {}

  const QHPI_Op* first() {
    QHPI_Shape start = {};
    start.rank = whole_.rank;
    return one(start);
  }

  /// All tiles, put together again.
  QHPI_OpRef all() {
    QHPI_Shape start = {};
    start.rank = whole_.rank;
    return along(0, start);
  }

 private:
  const QHPI_Op* one(const QHPI_Shape& start) {
    QHPI_Shape extent = whole_;
    for (std::uint32_t i = 0; i < whole_.rank; ++i) extent.dims[i] = std::min(tile_.dims[i], whole_.dims[i] - start.dims[i]);
    return op_->info->build_tile(op_, &start, &extent);
  }

  QHPI_OpRef along(std::uint32_t axis, QHPI_Shape start) {
    if (axis == whole_.rank) {
      const QHPI_Op* const made = one(start);
      return {made, made != nullptr && op_->info->tile_output < made->outputs.size() ? op_->info->tile_output : 0};
    }
    std::vector<QHPI_OpRef> parts;
    for (start.dims[axis] = 0; start.dims[axis] < whole_.dims[axis]; start.dims[axis] += tile_.dims[axis]) {
      parts.push_back(along(axis + 1, start));
      if (parts.back().op == nullptr || parts.back().op->kind == OpKind::error) return parts.back();
    }
    return parts.size() == 1 ? parts[0] : qhpi_op_concat(axis, static_cast<std::uint32_t>(parts.size()), parts.data());
  }

  QHPI_Op* op_;
  const QHPI_Shape tile_, whole_;
};

}  // namespace

Qnn_ErrorHandle_t Preparation::tileOne(QHPI_Op* op) {
  const QHPI_OpInfo_v1& info = *op->info;
  if (info.tile_output >= op->outputs.size() || op->outputs.size() != 1) {
    logger.error("%s is to be cut along output %u; the emulator cuts ops with one output", titleOf(*op).c_str(),
                 info.tile_output);
    return refused;
  }
  const QHPI_Shape whole = op->outputs[info.tile_output].shape;
  const QHPI_Shape required = info.shape_required(op);
  if (required.rank != whole.rank) {
    logger.error("%s: shape_required answered rank %u, its output has rank %u", titleOf(*op).c_str(), required.rank,
                 whole.rank);
    return refused;
  }
  QHPI_Shape step = whole, tile = whole;
  for (std::uint32_t i = 0; i < whole.rank; ++i) {
    if (required.dims[i] != QHPI_DO_NOT_TILE) step.dims[i] = std::clamp(required.dims[i], 1u, whole.dims[i]);
  }
  QHPI_Shape legal = whole;
  for (;;) {
    std::uint32_t axis = whole.rank;
    for (std::uint32_t i = whole.rank; i-- > 0;) {
      if (tile.dims[i] > step.dims[i]) axis = i;  // the outermost that can still be cut
    }
    if (axis == whole.rank) {  // no smaller tile; one that is still too large is refused later, with its sizes
      return sameShape(legal, whole) ? static_cast<Qnn_ErrorHandle_t>(QNN_SUCCESS)
                                     : replace(op, Tiles(op, legal).all().op, "tile");
    }
    const std::uint32_t steps = (tile.dims[axis] + step.dims[axis] - 1) / step.dims[axis];
    tile.dims[axis] = (steps + 1) / 2 * step.dims[axis];
    legal = tile;
    if (info.shape_legalized != nullptr) {
      legal = info.shape_legalized(op, &tile);
      for (std::uint32_t i = 0; i < whole.rank; ++i) {
        if (legal.rank == whole.rank && legal.dims[i] >= tile.dims[i]) continue;
        logger.error("%s: shape_legalized answered %s for %s: it may only enlarge a tile", titleOf(*op).c_str(),
                     textOf(legal).c_str(), textOf(tile).c_str());
        return refused;
      }
    }
    const auto before = static_cast<std::uint32_t>(ops_.size());
    Tiles tiles(op, legal);
    const QHPI_Op* const first = tiles.first();
    const bool isError = first == nullptr || errorIn(first) != nullptr;
    if (!isError && !fits(first, before, processor.tcm)) continue;
    return replace(op, isError ? first : tiles.all().op, "tile");
  }
}

Qnn_ErrorHandle_t Preparation::tile() {
  for (QHPI_Op* const op : order()) {
    if (op->kind != OpKind::op || op->info->build_tile == nullptr || largestOf(*op) <= processor.tcm) continue;
    const Qnn_ErrorHandle_t code = tileOne(op);
    if (code != QNN_SUCCESS) return code;
  }
  return QNN_SUCCESS;
}

}  // namespace emulator
