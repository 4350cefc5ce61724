#include "kernels.hpp"

namespace emulator {
namespace {

QHPI_Standard_Layout layoutOf(const QHPI_OutputDef& definition) {
  if (definition.type == QHPI_UNKNOWN) return static_cast<QHPI_Standard_Layout>(QHPI_Layout_ShapeOnly);
  const std::uint32_t rank = definition.shape.rank;
  return rank <= 4 ? QHPI_Layout_Flat4 : rank == 5 ? QHPI_Layout_Flat5 : QHPI_Layout_Flat6;
}

/// One side of an op against one side of a kernel.
template <class DefinitionAt>
bool takes(std::size_t count, const DefinitionAt& definitionAt, const QHPI_Tensor_Signature_v1* signature,
           std::uint32_t fewest, bool isVariable, std::vector<QHPI_Tensor>& tensors) {
  if (count != fewest && (!isVariable || fewest == 0 || count < fewest)) return false;
  tensors.clear();
  for (std::size_t i = 0; i < count; ++i) {
    const QHPI_OutputDef& definition = definitionAt(i);
    const QHPI_Tensor_Signature_v1& wanted = signatureOf(signature, fewest, i);
    if (wanted.element_type != QHPI_Any_Element_Type && wanted.element_type != definition.type) return false;
    if (wanted.layout != layoutOf(definition) || wanted.storage == QHPI_Storage_Indirect) return false;
    const bool isDdr = wanted.mem_placement == QHPI_MemLoc_DDR_Only;
    tensors.push_back({definition, layoutOf(definition), isDdr ? QHPI_MemLoc_DDR_Only : QHPI_MemLoc_TCM_Only, nullptr});
  }
  return true;
}

bool fits(const QHPI_Op& op, const QHPI_Kernel_v1& kernel, KernelChoice& chosen) {
  const auto input = [&](std::size_t at) -> const QHPI_OutputDef& { return definitionOf(op.inputs[at]); };
  const auto output = [&](std::size_t at) -> const QHPI_OutputDef& { return op.outputs[at]; };
  if (!takes(op.inputs.size(), input, kernel.input_signature, kernel.min_inputs, kernel.variable_inputs, chosen.inputs) ||
      !takes(op.outputs.size(), output, kernel.output_signature, kernel.min_outputs, kernel.variable_outputs,
             chosen.outputs)) {
    return false;
  }
  if (kernel.predicate == nullptr) return true;
  std::vector<const QHPI_Tensor*> tensors;
  for (const QHPI_Tensor& each : chosen.inputs) tensors.push_back(&each);
  return kernel.predicate(&op, static_cast<std::uint32_t>(tensors.size()), tensors.data()) != 0;
}

}  // namespace

Qnn_ErrorHandle_t choose(const QHPI_Op& op, const Logger& logger, KernelChoice& chosen) {
  chosen.op = &op;
  for (std::uint32_t i = 0; i < op.info->num_kernels && chosen.kernel == nullptr; ++i) {
    if (fits(op, op.info->kernels[i], chosen)) chosen.kernel = &op.info->kernels[i];
  }
  if (chosen.kernel == nullptr) {
    logger.error("%s: none of its %u kernels takes these tensors, flat (libQnnHtp lists them)", titleOf(op).c_str(),
                 op.info->num_kernels);
    return refused;
  }
  const QHPI_Kernel_v1& kernel = *chosen.kernel;
  for (std::size_t i = 0; i < chosen.inputs.size(); ++i) {
    const QHPI_Op& from = *op.inputs[i].op;
    const unsigned char memory = signatureOf(kernel.input_signature, kernel.min_inputs, i).mem_placement;
    // A constant of the client's stays in DDR unless its kernel asks for another memory; parameters do not.
    const bool stays = (from.kind == OpKind::constant && !from.isParam) || from.kind == OpKind::missing;
    if (memory != QHPI_MemLoc_TCM_Only && stays) chosen.inputs[i].placement = QHPI_MemLoc_DDR_Only;
  }
  return QNN_SUCCESS;
}

}  // namespace emulator
