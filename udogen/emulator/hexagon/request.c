/* Reads the request of a call on HTP. */
#include <string.h>

#include "harness.h"

static void tensor(QHPI_Tensor* made, int input) {
  made->type = wire_number();
  made->quant.zero_offset = (int32_t)wire_number();
  memcpy(&made->quant.stepsize, wire_take(4), 4);
  made->constant = wire_number();
  made->shape.rank = wire_number();
  for (size_t axis = 0; axis < QHPI_MAX_RANK; ++axis) made->shape.dims[axis] = wire_number();
  made->size = wire_number();
  const uint32_t element = qhpi_element_type_size(made->type);
  if (made->shape.rank > QHPI_MAX_RANK || element == 0) fail("the request has a tensor that cannot be");
  uint64_t size = element;
  for (uint32_t axis = 0; axis < made->shape.rank && size <= UINT32_MAX; ++axis) size *= made->shape.dims[axis];
  if (size != made->size) fail("the request has a tensor whose size does not match its shape");
  if (input) made->given = wire_take(made->size);
}

void wire_read(Request* request) {
  if (wire_number() != REQUEST_MAGIC) fail("this is no request");
  request->loops = wire_number();
  poison = wire_number();
  guard_side = wire_number();
  request->slices = wire_number();
  request->unit = wire_number();
  request->num_inputs = wire_number();
  request->num_outputs = wire_number();
  if (request->num_inputs > MAX_TENSORS || request->num_outputs > MAX_TENSORS) {
    fail("an op has more than %d inputs (with its parameters) or outputs", MAX_TENSORS);
  }
  if (request->slices < 1 || request->slices > MAX_SLICES) fail("there are between 1 and %d slices", MAX_SLICES);
  request->op = wire_text();
  request->kernel = wire_text();
  for (uint32_t i = 0; i < request->num_inputs; ++i) tensor(&request->inputs[i], 1);
  for (uint32_t i = 0; i < request->num_outputs; ++i) tensor(&request->outputs[i], 0);
}
