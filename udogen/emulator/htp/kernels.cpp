#include "kernels.hpp"

#include "layout.hpp"

namespace emulator {
namespace {

QHPI_Standard_Layout deliveredLayout(const QHPI_OutputDef& definition) {
  return definition.type == QHPI_UNKNOWN ? static_cast<QHPI_Standard_Layout>(QHPI_Layout_ShapeOnly)
                                         : flatOf(definition.shape.rank);
}

/// Lays a tensor out as a signature requires; false if HTP does not.  Of all layouts with blocks libQnnHtp was seen
/// to deliver two, to kernels that take them from anywhere but DDR.
bool lay(const QHPI_OutputDef& definition, const QHPI_Tensor_Signature_v1& wanted, QHPI_Tensor& tensor) {
  if (wanted.element_type != QHPI_Any_Element_Type && wanted.element_type != definition.type) return false;
  tensor.definition = definition;
  tensor.layout = wanted.layout;
  tensor.isIndirect = false;
  tensor.data = nullptr;
  tensor.placement = wanted.mem_placement == QHPI_MemLoc_DDR_Only ? QHPI_MemLoc_DDR_Only : QHPI_MemLoc_TCM_Only;
  if (wanted.layout == deliveredLayout(definition)) return wanted.storage != QHPI_Storage_Indirect;
  const bool fits = (wanted.layout == QHPI_Layout_Crouton_8 && definition.type == QHPI_QUInt8) ||
                    (wanted.layout == QHPI_Layout_Crouton_16 && definition.type == QHPI_QUInt16);
  tensor.isIndirect = true;
  return fits && definition.shape.rank == 4 && wanted.storage != QHPI_Storage_Direct &&
         wanted.mem_placement != QHPI_MemLoc_DDR_Only;
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

}  // namespace

Qnn_ErrorHandle_t choose(const QHPI_Op& op, const Logger& logger, KernelChoice& chosen) {
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
    logger.error("%s: none of its %u kernels takes these tensors (libQnnHtp lists them)", titleOf(op).c_str(),
                 op.info->num_kernels);
    return refused;
  }
  const QHPI_Kernel_v1& kernel = *chosen.kernel;
  for (std::size_t i = 0; i < chosen.inputs.size(); ++i) {
    const QHPI_Op* const from = op.inputs[i].op;
    QHPI_Tensor& tensor = *chosen.inputs[i];
    const bool isConstant = from->kind == OpKind::constant;
    const unsigned char memory = signatureOf(kernel.input_signature, kernel.min_inputs, i).mem_placement;
    chosen.isReadable.push_back(isConstant && memory == QHPI_MemLoc_DDR_Only);
    // A constant of the client's stays in DDR unless its kernel asks for another; parameters come along.
    const bool stays = (isConstant && !from->isParam && !tensor.isIndirect) || tensor.definition.type == QHPI_UNKNOWN;
    if (memory != QHPI_MemLoc_TCM_Only && stays) tensor.placement = QHPI_MemLoc_DDR_Only;
  }
  return QNN_SUCCESS;
}

}  // namespace emulator
