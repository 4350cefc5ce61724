/* What kernels and predicates may ask; results as of libQnnHtp 2.47 for flat tensors (measured). */
#include <string.h>

#include "harness.h"

QHPI_Shape qhpi_tensor_shape(const QHPI_Tensor* tensor) { return tensor->shape; }

QHPI_Shape qhpi_tensor_padding(const QHPI_Tensor* tensor) {
  QHPI_Shape none = {0};
  none.rank = tensor->shape.rank;
  return none;
}

QHPI_Shape qhpi_tensor_padded_shape(const QHPI_Tensor* tensor) { return tensor->shape; }
QHPI_Element_Type qhpi_tensor_type(const QHPI_Tensor* tensor) { return tensor->type; }
QHPI_Standard_Layout qhpi_tensor_layout(const QHPI_Tensor* tensor) { return tensor->layout; }
QHPI_MemLoc qhpi_tensor_placement(const QHPI_Tensor* tensor) { return tensor->placement; }
QHPI_Quant_Parameters qhpi_tensor_quant_parameters(const QHPI_Tensor* tensor) { return tensor->quant; }
void* qhpi_tensor_raw_data(const QHPI_Tensor* tensor) { return tensor->data; }
void** qhpi_tensor_block_table(const QHPI_Tensor* tensor) { return (void**)&tensor->block; }
uint32_t qhpi_tensor_block_table_length(const QHPI_Tensor* tensor) { return tensor->block != NULL; }

QHPI_Shape qhpi_tensor_block_shape(const QHPI_Tensor* tensor) {
  QHPI_Shape none = {0};
  (void)tensor;
  return none;
}

uint32_t qhpi_num_slices(QHPI_RuntimeHandle* handle) { return handle->slices; }
uint32_t qhpi_slice_number(QHPI_RuntimeHandle* handle) { return handle->slice; }
void* qhpi_sync_block(QHPI_RuntimeHandle* handle) { return handle->sync_block; }

uint32_t qhpi_element_type_size(QHPI_Element_Type type) {
  switch (type) {
    case QHPI_QUInt8:
    case QHPI_QInt8: return 1;
    case QHPI_QUInt16:
    case QHPI_QInt16:
    case QHPI_Float16: return 2;
    case QHPI_Float32:
    case QHPI_Int32:
    case QHPI_QInt32: return 4;
    case QHPI_Int64: return 8;
    default: return 0;
  }
}

/* --- a node, for predicates ------------------------------------------------------------------------------------- */

const char* qhpi_op_name(const QHPI_Op* op) { return op->name; }
uint32_t qhpi_op_num_inputs(const QHPI_Op* op) { return op->num_inputs; }
uint32_t qhpi_op_num_outputs(const QHPI_Op* op) { return op->num_outputs; }
uint32_t qhpi_op_is_constant(const QHPI_Op* op) { return op->constant; }
uint32_t qhpi_op_num_uses(const QHPI_Op* op) { return op->num_inputs == 0 ? 1 : 0; }
uint32_t qhpi_op_is_error(const QHPI_Op* op) { return op == NULL; }
uint32_t qhpi_output_is_error(const QHPI_OutputDef* output) { return output->type == QHPI_PrepareError; }

QHPI_OpRef qhpi_op_input(const QHPI_Op* op, uint32_t index) {
  const QHPI_OpRef found = {index < op->num_inputs ? &op->inputs[index] : NULL, 0};
  return found;
}

QHPI_OutputDef qhpi_op_output(const QHPI_Op* op, uint32_t position) {
  QHPI_OutputDef found = {QHPI_PrepareError, {0, 1.0f}, {0}};
  if (position < op->num_outputs) {
    found.type = op->outputs[position].type;
    found.quant_parameters = op->outputs[position].quant;
    found.shape = op->outputs[position].shape;
  }
  return found;
}

const void* qhpi_op_constant_data(const QHPI_Op* op) { return op->constant ? op->outputs[0].given : NULL; }

/* --- changing a graph: there is none here, so rewrites and tiling are not called ---------------------------------- */

static void no_graph(const char* function) { fail("%s: qemu-hexagon has no graph to rewrite", function); }

const QHPI_Op* qhpi_op_create_constant(const QHPI_Op* root, const QHPI_OutputDef* output, uint32_t size,
                                       const void* data) {
  (void)root, (void)output, (void)size, (void)data;
  no_graph(__func__);
  return NULL;
}

QHPI_OpRef qhpi_op_create_shape(const QHPI_Op* root, const QHPI_Shape* shape) {
  (void)root, (void)shape;
  no_graph(__func__);
  return (QHPI_OpRef){NULL, 0};
}

const QHPI_Op* qhpi_op_create(const QHPI_Op* root, const char* name, uint32_t num_inputs, const QHPI_OpRef* inputs,
                              uint32_t num_outputs, const QHPI_OutputDef* outputs) {
  (void)root, (void)name, (void)num_inputs, (void)inputs, (void)num_outputs, (void)outputs;
  no_graph(__func__);
  return NULL;
}

const QHPI_Op* qhpi_op_create_multi_output(uint32_t num_inputs, const QHPI_OpRef* inputs) {
  (void)num_inputs, (void)inputs;
  no_graph(__func__);
  return NULL;
}

QHPI_OpRef qhpi_op_slice(QHPI_OpRef ref, const QHPI_Shape* start, const QHPI_Shape* extent) {
  (void)ref, (void)start, (void)extent;
  no_graph(__func__);
  return (QHPI_OpRef){NULL, 0};
}

QHPI_OpRef qhpi_op_concat(uint32_t axis, uint32_t num_inputs, const QHPI_OpRef* inputs) {
  (void)axis, (void)num_inputs, (void)inputs;
  no_graph(__func__);
  return (QHPI_OpRef){NULL, 0};
}

const QHPI_Op* qhpi_op_create_error(const QHPI_Op* root, const char* description) {
  (void)root;
  fail("the op refuses its graph: %s", description ? description : "no reason given");
}

QHPI_StatusCode qhpi_option_int(const QHPI_Op* op, const char* name, int32_t* value) {
  (void)op, (void)name, (void)value;
  return QHPI_Unsupported;
}

uint32_t qhpi_op_producer_for(const QHPI_Op* op, const char* name) { return name && strcmp(op->name, name) == 0; }
const char* qhpi_op_error_description(const QHPI_Op* op) { return (void)op, "there is no such op"; }

const char* qhpi_output_error_description(const QHPI_Op* root, const QHPI_OutputDef* output) {
  (void)root, (void)output;
  return "there is no such output";
}
