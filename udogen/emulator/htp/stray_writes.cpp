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
    emulator::fillGuards(value.data, value.bytes, value.guard, executions_ > 0, value.isGuardedBefore);
  }
}

bool HtpGraph::areGuardsWhole(const Step& step, const Value& value, const std::string& name) const {
  return emulator::areGuardsWhole(logger_, step.title, "its " + name, value.data, value.bytes, value.guard,
                                  executions_ > 0, value.isGuardedBefore);
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
    if (!isUnchanged(logger_, step.title, "its " + name, step.inputData[i], given.data(), given.size())) whole = false;
    const Value& value = values_.at({op.inputs[i].op, op.inputs[i].output_number});
    if (value.isGuarded && !areGuardsWhole(step, value, name)) whole = false;
  }
  return whole;
}

}  // namespace emulator
