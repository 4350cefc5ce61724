// Checks that a kernel has written neither beside its tensors nor into its inputs.
#include "graph.hpp"
#include "layout.hpp"

namespace emulator {
namespace {

/// As the client calls it, where the node is one of its own.
std::string nameOf(const QHPI_Op& op, bool isOutput, std::size_t index) {
  const char *role = isOutput ? "output " : "input ", *name = nullptr;
  if (op.origin != nullptr) {
    const Qnn_OpConfigV1_t& config = op.origin->v1();
    if (isOutput) {
      if (index < config.numOfOutputs) name = common(config.outputTensors[index]).name;
    } else if (index < config.numOfInputs) {
      name = common(config.inputTensors[index]).name;
    } else if (index - config.numOfInputs < config.numOfParams) {
      role = "parameter ";
      name = config.params[index - config.numOfInputs].name;
    }
  }
  return role + (name != nullptr ? "`" + std::string(name) + "`" : std::to_string(index));
}

}  // namespace

void HtpGraph::fillGuards() const {
  for (const auto& [_, value] : values_) {
    if (!value.isGuarded || value.data == nullptr) continue;
    const std::ptrdiff_t before = -static_cast<std::ptrdiff_t>(guardBytes);
    if (value.isGuardedBefore) fillGuard(value.data + before, before, value.guard, executions_ > 0);
    fillGuard(value.data + value.bytes, 0, value.guard, executions_ > 0);
  }
}

bool HtpGraph::areGuardsWhole(const Step& step, const Value& value, const std::string& name) const {
  const bool later = executions_ > 0;
  const std::ptrdiff_t front = -static_cast<std::ptrdiff_t>(guardBytes);
  Changed before;
  if (value.isGuardedBefore) before = compareGuard(value.data + front, front, value.guard, later);
  const Changed behind = compareGuard(value.data + value.bytes, 0, value.guard, later);
  if (behind.count != 0) {
    logger_.error("%s wrote past the end of its %s (%zu bytes): at byte %zu, %zu in all", step.title.c_str(), name.c_str(),
                  value.bytes, value.bytes + behind.first, behind.count);
  } else if (before.count != 0) {
    logger_.error("%s wrote before the beginning of its %s (%zu bytes): %zu bytes before it, %zu in all",
                  step.title.c_str(), name.c_str(), value.bytes, guardBytes - before.first, before.count);
  }
  return before.count == 0 && behind.count == 0;
}

bool HtpGraph::areTensorsWhole(const Step& step) const {
  const QHPI_Op& op = *step.chosen.op;
  bool whole = true;
  for (std::size_t i = 0; i < step.outputs.size(); ++i) {
    const Value& value = values_.at({&op, static_cast<std::uint32_t>(i)});
    if (!step.outputs[i]->isIndirect && !areGuardsWhole(step, value, nameOf(op, true, i))) whole = false;
  }
  for (std::size_t i = 0; i < step.given.size(); ++i) {
    if (step.inputData[i] == nullptr || step.inputs[i]->isIndirect || (step.inPlace && i == 0)) continue;
    const std::string name = nameOf(op, false, i);
    const std::vector<unsigned char>& given = step.given[i];
    Changed found;
    for (std::size_t k = 0; k < given.size(); ++k) found.see(step.inputData[i][k] != given[k], k);
    if (found.count != 0) {
      logger_.error("%s wrote into its %s, which it must not: at byte %zu of %zu, %zu in all", step.title.c_str(),
                    name.c_str(), found.first, given.size(), found.count);
      whole = false;
    }
    const Value& value = values_.at({op.inputs[i].op, op.inputs[i].output_number});
    if (value.isGuarded && !areGuardsWhole(step, value, name)) whole = false;
  }
  return whole;
}

}  // namespace emulator
