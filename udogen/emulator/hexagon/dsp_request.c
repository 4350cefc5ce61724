/* Reads the request of a call on DSP V65/V66. */
#include <stdlib.h>
#include <string.h>

#include "dsp.h"

#define DSP_AXES 4 /* Hexagon NN keeps batches, height, width and depth */

static float real(void) {
  float value;
  memcpy(&value, wire_take(sizeof value), sizeof value);
  return value;
}

static uint32_t element_size(uint32_t type) {
  switch (type) {
    case UDO_DATATYPE_FIXED_8:
    case UDO_DATATYPE_UINT_8:
    case UDO_DATATYPE_INT_8: return 1;
    case UDO_DATATYPE_FLOAT_16:
    case UDO_DATATYPE_FIXED_16:
    case UDO_DATATYPE_UINT_16:
    case UDO_DATATYPE_INT_16: return 2;
    default: return 4;
  }
}

static void read_tensor(Tensor* tensor, uint32_t kind, uint32_t number) {
  Udo_TensorParam_t* raw = &tensor->raw;
  const uint32_t type = wire_number();
  const uint32_t quantized = wire_number();
  const float lowest = real();
  const float highest = real();
  raw->tensorRank = wire_number();
  for (size_t axis = 0; axis < MAX_AXES; ++axis) tensor->max[axis] = wire_number();
  tensor->size = wire_number();
  tensor->set_size = UNSET_SIZE;
  if (raw->tensorRank > MAX_AXES) fail("the request has a tensor that cannot be");
  uint64_t size = type == 0 ? 0 : element_size(type);
  for (uint32_t axis = 0; axis < raw->tensorRank && size <= UINT32_MAX; ++axis) size *= tensor->max[axis];
  if (size != tensor->size) fail("the request has a tensor whose size does not match its shape");
  raw->maxDimensions = tensor->max;
  raw->currDimensions = tensor->current;
  raw->dataType = (Udo_DataType_t)type;
  raw->layout = type == 0 ? UDO_LAYOUT_NULL : UDO_LAYOUT_NHWC;
  raw->quantizeParams.quantizeType = quantized ? UDO_QUANTIZATION_TF : UDO_QUANTIZATION_NONE;
  raw->quantizeParams.TFParams.minValue = lowest;
  raw->quantizeParams.TFParams.maxValue = highest;
  if (kind != GUARD_OUTPUT) tensor->given = wire_take(tensor->size);
  if (type == 0) return;
  raw->tensorData = guarded_memory(kind, number, tensor->size, 0);
  guard_content(raw->tensorData, tensor->given);
}

static void fill_rank(Tensor* tensor) {
  while (tensor->raw.layout != UDO_LAYOUT_NULL && tensor->raw.tensorRank < DSP_AXES) {
    memmove(tensor->max + 1, tensor->max, tensor->raw.tensorRank * sizeof *tensor->max);
    tensor->max[0] = 1;
    ++tensor->raw.tensorRank;
  }
  memcpy(tensor->current, tensor->max, sizeof tensor->current);
}

static void read_param(Udo_Param_t* param, Tensor* tensor, uint32_t number) {
  param->paramType = (Udo_ParamType_t)wire_number();
  param->paramName = wire_text();
  if (param->paramType == UDO_PARAMTYPE_SCALAR) {
    param->scalarParam.dataType = (Udo_DataType_t)wire_number();
    param->scalarParam.dataValue.uint32Value = wire_number();
  } else if (param->paramType == UDO_PARAMTYPE_STRING) {
    param->stringParam = wire_text();
  } else {
    read_tensor(tensor, GUARD_PARAM, number);
    memcpy(tensor->current, tensor->max, sizeof tensor->current);
    memcpy(tensor->raw.tensorData, tensor->given, tensor->size);
    param->tensorParam = tensor->raw;
  }
}

void dsp_read(DspRequest* request) {
  if (wire_number() != DSP_MAGIC) fail("this is no request");
  request->loops = wire_number();
  poison = wire_number();
  guard_side = wire_number();
  request->vtcm = wire_number();
  request->num_inputs = wire_number();
  request->num_outputs = wire_number();
  request->num_params = wire_number();
  if (request->num_inputs > MAX_TENSORS || request->num_outputs > MAX_TENSORS || request->num_params > MAX_PARAMS) {
    fail("an op has more than %d inputs, outputs or parameters", MAX_TENSORS);
  }
  request->package = wire_text();
  request->op = wire_text();
  for (uint32_t i = 0; i < request->num_inputs; ++i) read_tensor(&request->inputs[i], GUARD_INPUT, i);
  for (uint32_t i = 0; i < request->num_outputs; ++i) read_tensor(&request->outputs[i], GUARD_OUTPUT, i);
  for (uint32_t i = 0; i < request->num_inputs; ++i) fill_rank(&request->inputs[i]);
  for (uint32_t i = 0; i < request->num_outputs; ++i) fill_rank(&request->outputs[i]);
  for (uint32_t i = 0; i < request->num_params; ++i) read_param(&request->params[i], &request->constants[i], i);
}

void dsp_forget_params(DspRequest* request) {
  for (uint32_t i = 0; i < request->num_params; ++i) {
    Udo_Param_t* param = &request->params[i];
    Tensor* tensor = &request->constants[i];
    memset(param->paramName, '?', strlen(param->paramName));
    if (param->paramType == UDO_PARAMTYPE_STRING) memset(param->stringParam, '?', strlen(param->stringParam));
    if (param->paramType == UDO_PARAMTYPE_TENSOR) {
      memset(tensor->raw.tensorData, 0xdd, tensor->size);
      guard_copy(tensor->raw.tensorData);
    }
    memset(tensor, 0xdd, sizeof *tensor);
    memset(param, 0xdd, sizeof *param);
  }
}
