// The functions of QHPI: what a kernel asks about its tensors and its thread, and what a package asks and makes while it
// puts the parameters of its nodes in order.
#include "kernels.hpp"
#include "registry.hpp"

#define QHPI_EXPORT extern "C" __attribute__((visibility("default")))

namespace emulator {
namespace {

const QHPI_Op* fail(const QHPI_Op* root, const std::string& why) { return root->graph->make(OpKind::error, why, root); }

/// For what rewrites and tiles need: an error node, with which the op is refused.
const QHPI_Op* onlyInLibQnnHtp(const QHPI_Op* root) {
  return root == nullptr ? nullptr : fail(root, "only libQnnHtp rewrites graphs");
}

}  // namespace
}  // namespace emulator

using namespace emulator;  // what follows is C

// --- tensors and threads ----------------------------------------------------------------------------------------

QHPI_EXPORT QHPI_Shape qhpi_tensor_shape(const QHPI_Tensor* tensor) { return tensor->definition.shape; }
QHPI_EXPORT QHPI_Shape qhpi_tensor_padding(const QHPI_Tensor* tensor) { return {tensor->definition.shape.rank, {}}; }
QHPI_EXPORT QHPI_Shape qhpi_tensor_padded_shape(const QHPI_Tensor* tensor) { return tensor->definition.shape; }
QHPI_EXPORT QHPI_Element_Type qhpi_tensor_type(const QHPI_Tensor* tensor) { return tensor->definition.type; }
QHPI_EXPORT QHPI_Standard_Layout qhpi_tensor_layout(const QHPI_Tensor* tensor) { return tensor->layout; }
QHPI_EXPORT QHPI_MemLoc qhpi_tensor_placement(const QHPI_Tensor* tensor) { return tensor->placement; }
QHPI_EXPORT QHPI_Quant_Parameters qhpi_tensor_quant_parameters(const QHPI_Tensor* tensor) {
  return tensor->definition.quant_parameters;
}
QHPI_EXPORT void* qhpi_tensor_raw_data(const QHPI_Tensor* tensor) { return tensor->data; }
QHPI_EXPORT void** qhpi_tensor_block_table(const QHPI_Tensor* tensor) { return &const_cast<QHPI_Tensor*>(tensor)->data; }
QHPI_EXPORT std::uint32_t qhpi_tensor_block_table_length(const QHPI_Tensor*) { return 1; }
QHPI_EXPORT QHPI_Shape qhpi_tensor_block_shape(const QHPI_Tensor*) { return {}; }
QHPI_EXPORT std::uint32_t qhpi_num_slices(QHPI_RuntimeHandle* handle) { return handle->slices; }
QHPI_EXPORT std::uint32_t qhpi_slice_number(QHPI_RuntimeHandle* handle) { return handle->slice; }
QHPI_EXPORT void* qhpi_sync_block(QHPI_RuntimeHandle* handle) { return handle->shared; }
QHPI_EXPORT std::uint32_t qhpi_element_type_size(QHPI_Element_Type type) { return sizeOfElement(type); }

// --- nodes ------------------------------------------------------------------------------------------------------

QHPI_EXPORT const char* qhpi_op_name(const QHPI_Op* op) {
  return op->kind == OpKind::op || op->kind == OpKind::builtIn ? op->name.c_str() : "<internal>";
}

QHPI_EXPORT std::uint32_t qhpi_op_num_inputs(const QHPI_Op* op) { return static_cast<std::uint32_t>(op->inputs.size()); }

QHPI_EXPORT QHPI_OpRef qhpi_op_input(const QHPI_Op* op, std::uint32_t index) {
  if (index < op->inputs.size()) return op->inputs[index];
  return {fail(op, op->name + " has no input " + std::to_string(index)), 0};
}

QHPI_EXPORT std::uint32_t qhpi_op_num_outputs(const QHPI_Op* op) {
  return static_cast<std::uint32_t>(op->outputs.size());
}

QHPI_EXPORT QHPI_OutputDef qhpi_op_output(const QHPI_Op* op, std::uint32_t position) {
  if (position < op->outputs.size()) return op->outputs[position];
  QHPI_OutputDef none = {};
  none.type = QHPI_PrepareError;
  return none;
}

QHPI_EXPORT std::uint32_t qhpi_op_is_constant(const QHPI_Op* op) { return op->kind == OpKind::constant; }

QHPI_EXPORT const void* qhpi_op_constant_data(const QHPI_Op* op) {
  return op->kind == OpKind::constant ? op->data.data() : nullptr;
}

QHPI_EXPORT const QHPI_Op* qhpi_op_create_constant(const QHPI_Op* root, const QHPI_OutputDef* output, std::uint32_t size,
                                                  const void* data) {
  if (output == nullptr || data == nullptr || bytesOf(*output) != size || output->shape.rank > QHPI_MAX_RANK) {
    return fail(root, "a constant was given " + std::to_string(size) + " bytes, which its type and shape do not have");
  }
  QHPI_Op* const constant = root->graph->make(OpKind::constant, "$Const", root);
  constant->outputs.push_back(*output);
  const auto* const bytes = static_cast<const unsigned char*>(data);
  constant->data.assign(bytes, bytes + size);
  constant->isParam = true;
  return constant;
}

QHPI_EXPORT const QHPI_Op* qhpi_op_create(const QHPI_Op* root, const char* name, std::uint32_t inputCount,
                                         const QHPI_OpRef* inputs, std::uint32_t outputCount,
                                         const QHPI_OutputDef* outputs) {
  const std::string called = name == nullptr ? "" : name;
  const QHPI_OpInfo_v1* const info = findOp(called);
  if (info == nullptr) return fail(root, "no package has registered an op `" + called + "`");
  for (std::uint32_t i = 0; i < inputCount; ++i) {
    if (inputs[i].op == nullptr) return fail(root, "an input of a new " + called + " does not exist");
    if (inputs[i].op->kind == OpKind::error) return inputs[i].op;
  }
  QHPI_Op* const op = root->graph->make(OpKind::op, called, root);
  op->info = info;
  op->inputs.assign(inputs, inputs + inputCount);
  op->outputs.assign(outputs, outputs + outputCount);
  return op;
}

QHPI_EXPORT std::uint32_t qhpi_op_is_error(const QHPI_Op* op) { return op == nullptr || op->kind == OpKind::error; }

QHPI_EXPORT const char* qhpi_op_error_description(const QHPI_Op* op) { return op == nullptr ? "unknown op" : op->name.c_str(); }

QHPI_EXPORT std::uint32_t qhpi_output_is_error(const QHPI_OutputDef* output) {
  return output == nullptr || output->type == QHPI_PrepareError;
}

QHPI_EXPORT const char* qhpi_output_error_description(const QHPI_Op*, const QHPI_OutputDef*) {
  return "invalid error reference";
}

QHPI_EXPORT const QHPI_Op* qhpi_op_create_error(const QHPI_Op* root, const char* description) {
  return fail(root, description == nullptr ? "no reason given" : description);
}

// --- rewrites and tiles, which are not here: packages are linked with these names ----------------------------------

QHPI_EXPORT std::uint32_t qhpi_op_num_uses(const QHPI_Op*) { return 1; }
QHPI_EXPORT std::uint32_t qhpi_op_producer_for(const QHPI_Op*, const char*) { return 0; }
QHPI_EXPORT QHPI_StatusCode qhpi_option_int(const QHPI_Op*, const char*, std::int32_t*) { return QHPI_Unsupported; }
QHPI_EXPORT QHPI_OpRef qhpi_op_create_shape(const QHPI_Op* root, const QHPI_Shape*) { return {onlyInLibQnnHtp(root), 0}; }
QHPI_EXPORT const QHPI_Op* qhpi_op_create_multi_output(std::uint32_t count, const QHPI_OpRef* inputs) {
  return onlyInLibQnnHtp(count == 0 ? nullptr : inputs[0].op);
}
QHPI_EXPORT QHPI_OpRef qhpi_op_slice(QHPI_OpRef ref, const QHPI_Shape*, const QHPI_Shape*) {
  return {onlyInLibQnnHtp(ref.op), 0};
}
QHPI_EXPORT QHPI_OpRef qhpi_op_concat(std::uint32_t, std::uint32_t count, const QHPI_OpRef* inputs) {
  return {onlyInLibQnnHtp(count == 0 ? nullptr : inputs[0].op), 0};
}
