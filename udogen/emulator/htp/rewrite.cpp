// Rewrites: where packages take part in the preparation of a graph.
#include <set>

#include "layout.hpp"
#include "preparation.hpp"

namespace emulator {
namespace {

constexpr std::size_t mostRewrites = 20000;

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

}  // namespace

Qnn_ErrorHandle_t Preparation::replace(QHPI_Op* old, const QHPI_Op* with, const char* stage) {
  if (with == nullptr) {
    logger.error("%s: its %s returned NULL", titleOf(*old).c_str(), stage);
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

}  // namespace emulator
