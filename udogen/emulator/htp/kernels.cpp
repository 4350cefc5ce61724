#include "kernels.hpp"

#include "layout.hpp"
#include "registry.hpp"

namespace emulator {
namespace {

constexpr Qnn_ErrorHandle_t refused = QNN_GRAPH_ERROR_MEM_ALLOC;  // 1002: libQnnHtp's answer to all of this

std::string titleOf(const QHPI_Op& op) { return "node `" + op.node + "` (" + op.name + ")"; }

QHPI_Standard_Layout deliveredLayout(const QHPI_OutputDef& definition) {
  return definition.type == QHPI_UNKNOWN ? static_cast<QHPI_Standard_Layout>(QHPI_Layout_ShapeOnly)
                                         : flatOf(definition.shape.rank);
}

/// Lays a tensor as a signature wants it; false where HTP does not do so.  Of all layouts with blocks libQnnHtp was seen
/// to deliver two, to kernels that take them from anywhere but DDR.
bool lay(const QHPI_OutputDef& definition, const QHPI_Tensor_Signature_v1& wanted, QHPI_Tensor& tensor) {
  if (wanted.element_type != QHPI_Any_Element_Type && wanted.element_type != definition.type) return false;
  tensor.definition = definition;
  tensor.layout = wanted.layout;
  tensor.isIndirect = false;
  tensor.data = nullptr;
  if (wanted.layout == deliveredLayout(definition)) return wanted.storage != QHPI_Storage_Indirect;
  const bool fits = (wanted.layout == QHPI_Layout_Crouton_8 && definition.type == QHPI_QUInt8) ||
                    (wanted.layout == QHPI_Layout_Crouton_16 && definition.type == QHPI_QUInt16);
  tensor.isIndirect = true;
  return fits && definition.shape.rank == 4 && wanted.storage != QHPI_Storage_Direct &&
         wanted.mem_placement != QHPI_MemLoc_DDR_Only;
}

std::size_t bytesIn(const QHPI_Tensor& tensor) {
  if (!tensor.isIndirect) return bytesOf(tensor.definition);
  return blocksOf(tensor.layout, tensor.definition.shape) *
         blockBytes(tensor.layout, sizeOfElement(tensor.definition.type));
}

const QHPI_Tensor_Signature_v1& signatureOf(const QHPI_Tensor_Signature_v1* all, std::uint32_t count, std::size_t at) {
  return all[at < count ? at : count - 1];
}

bool isCount(std::size_t given, std::uint32_t wanted, bool isVariable) {
  return given == wanted || (isVariable && wanted != 0 && given > wanted);
}

/// One side of an op against one side of a kernel.
template <class DefinitionAt>
bool laySide(std::size_t count, const DefinitionAt& definitionAt, const QHPI_Tensor_Signature_v1* signature,
             std::uint32_t wanted, std::vector<std::unique_ptr<QHPI_Tensor>>& made) {
  made.clear();
  for (std::size_t i = 0; i < count; ++i) {
    made.push_back(std::make_unique<QHPI_Tensor>());
    if (!lay(definitionAt(i), signatureOf(signature, wanted, i), *made.back())) return false;
  }
  return true;
}

class Placing {
 public:
  Placing(Chosen& chosen, const Processor& processor, const Logger& logger)
      : chosen_(chosen), processor_(processor), logger_(logger) {}

  Qnn_ErrorHandle_t run() {
    const QHPI_Kernel_v1& kernel = *chosen_.kernel;
    for (const bool only : {true, false}) {
      if (only) each(chosen_.inputs, kernel.input_signature, kernel.min_inputs, "input", only);
      each(chosen_.outputs, kernel.output_signature, kernel.min_outputs, "output", only);
      if (!only) each(chosen_.inputs, kernel.input_signature, kernel.min_inputs, "input", only);
    }
    if (largest_ <= processor_.tcm && forced_ <= processor_.tcm) return QNN_SUCCESS;
    logger_.error("%s, kernel %s, not sufficiently tiled to fit in TCM. Requires %zu bytes:%s; TCM has %u",
                  titleOf(*chosen_.op).c_str(), kernel.function_name, largest_ > forced_ ? largest_ : forced_,
                  sizes_.c_str(), processor_.tcm);
    return refused;
  }

 private:
  void each(std::vector<std::unique_ptr<QHPI_Tensor>>& tensors, const QHPI_Tensor_Signature_v1* signature,
            std::uint32_t wanted, const char* what, bool only) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      QHPI_Tensor& tensor = *tensors[i];
      const unsigned char place = signatureOf(signature, wanted, i).mem_placement;
      const std::size_t bytes = bytesIn(tensor);
      const bool isInput = &tensors == &chosen_.inputs;
      const QHPI_Op* const from = isInput ? chosen_.op->inputs[i].op : nullptr;
      const bool isConstant = from != nullptr && from->kind == OpKind::constant;
      if (only) {
        sizes_ += (sizes_.empty() ? " " : ", ") + std::string(what) + " " + std::to_string(i) + nameIn(from) + " " +
                  textOf(tensor.definition.shape) + " takes " + std::to_string(bytes);
        if (!isConstant && bytes > largest_) largest_ = bytes;
        tensor.placement = QHPI_MemLoc_DDR_Only;
      }
      if (only != (place == QHPI_MemLoc_TCM_Only)) continue;
      if (only) forced_ += bytes;
      // A constant of the client's stays in DDR where its kernel does not mind; parameters come along.
      const bool stays = place == QHPI_MemLoc_DDR_Only || (isConstant && !from->isParam && !tensor.isIndirect) ||
                         tensor.definition.type == QHPI_UNKNOWN || used_ + bytes > processor_.tcm;
      if (only || !stays) {
        tensor.placement = QHPI_MemLoc_TCM_Only;
        used_ += bytes;
      }
    }
  }

  static std::string nameIn(const QHPI_Op* from) {
    return from != nullptr && from->tensor != nullptr ? " `" + from->tensor->name() + "`" : "";
  }

  Chosen& chosen_;
  const Processor& processor_;
  const Logger& logger_;
  std::size_t largest_ = 0, forced_ = 0, used_ = 0;
  std::string sizes_;
};

std::string describe(const QHPI_Op& op) {
  std::string text = "Failed matching a kernel for '" + op.name + "' op! (" + titleOf(op) + ")\nnum. inputs: " +
                     std::to_string(op.inputs.size()) + ", num. outputs: " + std::to_string(op.outputs.size());
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const QHPI_OutputDef& each = definitionOf(op.inputs[i]);
    text += "\nInput tensor[" + std::to_string(i) + "]:: element type: " + nameOfElement(each.type) +
            ", layout: " + nameOfLayout(deliveredLayout(each)) + ", rank: " + std::to_string(each.shape.rank);
  }
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    text += "\nOutput tensor[" + std::to_string(i) + "]:: element type: " + nameOfElement(op.outputs[i].type) +
            ", rank: " + std::to_string(op.outputs[i].shape.rank);
  }
  const auto side = [&](const char* what, const QHPI_Tensor_Signature_v1* all, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      text += std::string(i == 0 ? "\n  " : ", ") + (i == 0 ? what : "") + nameOfElement(all[i].element_type) + " " +
              nameOfLayout(all[i].layout);
    }
  };
  for (std::uint32_t i = 0; i < op.info->num_kernels; ++i) {
    const QHPI_Kernel_v1& kernel = op.info->kernels[i];
    text += "\nkernel[" + std::to_string(i) + "]:: function name: '" + kernel.function_name + "'";
    if (kernel.predicate != nullptr) text += ", with a predicate";
    side("takes ", kernel.input_signature, kernel.min_inputs);
    side("puts out ", kernel.output_signature, kernel.min_outputs);
  }
  return text;
}

}  // namespace

Qnn_ErrorHandle_t choose(const QHPI_Op& op, const Processor& processor, const Logger& logger, Chosen& chosen) {
  chosen.op = &op;
  for (std::uint32_t i = 0; i < op.info->num_kernels && chosen.kernel == nullptr; ++i) {
    const QHPI_Kernel_v1& kernel = op.info->kernels[i];
    if (!isCount(op.inputs.size(), kernel.min_inputs, kernel.variable_inputs)) continue;
    if (!isCount(op.outputs.size(), kernel.min_outputs, kernel.variable_outputs)) continue;
    const auto input = [&](std::size_t at) -> const QHPI_OutputDef& { return definitionOf(op.inputs[at]); };
    const auto output = [&](std::size_t at) -> const QHPI_OutputDef& { return op.outputs[at]; };
    if (!laySide(op.inputs.size(), input, kernel.input_signature, kernel.min_inputs, chosen.inputs)) continue;
    if (!laySide(op.outputs.size(), output, kernel.output_signature, kernel.min_outputs, chosen.outputs)) continue;
    if (kernel.predicate != nullptr) {
      std::vector<const QHPI_Tensor*> inputs;
      for (const auto& each : chosen.inputs) inputs.push_back(each.get());
      if (kernel.predicate(&op, static_cast<std::uint32_t>(inputs.size()), inputs.data()) == 0) continue;
    }
    chosen.kernel = &kernel;
  }
  if (chosen.kernel == nullptr) {
    logger.error("%s", describe(op).c_str());
    return refused;
  }
  const QHPI_Kernel_v1& kernel = *chosen.kernel;
  if ((kernel.resources & QHPI_RESOURCE_MAIN) != 0 && kernel.resources != 0xf) {
    logger.info("kernel %s asks for the main thread, which libQnnHtp calls an invalid resource flag, and runs it",
                kernel.function_name);
  }
  const Qnn_ErrorHandle_t code = Placing(chosen, processor, logger).run();
  if (code != QNN_SUCCESS) return code;
  std::vector<const QHPI_Tensor*> inputs;
  for (std::size_t i = 0; i < chosen.inputs.size(); ++i) {
    const bool isConstant = op.inputs[i].op->kind == OpKind::constant;
    const auto& signature = signatureOf(kernel.input_signature, kernel.min_inputs, i);
    chosen.isReadable.push_back(isConstant && signature.mem_placement == QHPI_MemLoc_DDR_Only);
    inputs.push_back(chosen.inputs[i].get());
  }
  if (kernel.cost_function != nullptr && processor.soc != 0) {  // HTP asks only where it knows the processor
    chosen.cycles = kernel.cost_function(static_cast<std::uint32_t>(inputs.size()), inputs.data());
  }
  return QNN_SUCCESS;
}

}  // namespace emulator
