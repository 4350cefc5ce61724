/* The tables that the package registers, and the choice among them, which is HTP's: the first record that fits.
 * libQnnHtp 2.47 and 2.51 look neither at costs nor at resources for it (tried). */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"

#define MAX_SHOWN 16

static const QHPI_OpInfo_v1* registered;
static uint32_t count;

QHPI_StatusCode qhpi_register_ops_v1(uint32_t num_ops, QHPI_OpInfo_v1* operators, const char* package) {
  if (registered != NULL) fail("the package calls qhpi_register_ops_v1 twice");
  if (num_ops > 0 && operators == NULL) fail("the package %s registers no table of ops", package ? package : "");
  registered = operators;
  count = num_ops;
  return QHPI_Success;
}

const QHPI_OpInfo_v1* find_op(const char* name) {
  for (uint32_t i = 0; i < count; ++i) {
    if (registered[i].name != NULL && strcmp(registered[i].name, name) == 0) return &registered[i];
  }
  for (uint32_t i = 0; i < count; ++i) {
    wire_text_record(RECORD_DETAIL, "it registers %s", registered[i].name ? registered[i].name : "an op without a name");
  }
  fail("the package registers no op %s (qhpi_register_ops_v1)", name);
}

static const char* name_of_type(uint32_t type) {
  switch (type) {
    case QHPI_QUInt8: return "QUInt8";
    case QHPI_QUInt16: return "QUInt16";
    case QHPI_QInt16: return "QInt16";
    case QHPI_Float32: return "Float32";
    case QHPI_Int32: return "Int32";
    case QHPI_QInt32: return "QInt32";
    case QHPI_QInt8: return "QInt8";
    case QHPI_Float16: return "Float16";
    case QHPI_Int64: return "Int64";
    case QHPI_Any_Element_Type: return "any type";
    default: return "an unknown type";
  }
}

static const char* name_of_layout(uint32_t layout) {
  switch (layout) {
    case QHPI_Layout_Any: return "any layout";
    case QHPI_Layout_Flat4: return "Flat4";
    case QHPI_Layout_Flat5: return "Flat5";
    default: return "a layout that is not flat";
  }
}

static const char* name_of_unit(uint32_t resources) {
  return resources & QHPI_RESOURCE_HMX ? " (hmx)" : resources & QHPI_RESOURCE_HVX ? " (hvx)" : " (main)";
}

static void append(char* text, size_t size, const char* more) {
  const size_t used = strlen(text);
  if (used + 1 < size) snprintf(text + used, size - used, "%s", more);
}

static void append_signature(char* text, size_t size, const QHPI_Tensor_Signature_v1* all, uint32_t number) {
  if (number == 0 || all == NULL) append(text, size, "none");
  for (uint32_t i = 0; all != NULL && i < number; ++i) {
    append(text, size, i ? ", " : "");
    append(text, size, name_of_type(all[i].element_type));
    append(text, size, " ");
    append(text, size, name_of_layout(all[i].layout));
  }
}

static void append_tensors(char* text, size_t size, const QHPI_Tensor* all, uint32_t number) {
  if (number == 0) append(text, size, "none");
  for (uint32_t i = 0; i < number; ++i) {
    append(text, size, i ? ", " : "");
    append(text, size, name_of_type(all[i].type));
    append(text, size, " ");
    append(text, size, name_of_layout(all[i].layout));
  }
}

static int same_number(uint32_t have, uint32_t fewest, unsigned more) { return more ? have >= fewest : have == fewest; }

/* With a variable number, the last signature is that of all further tensors. */
static int tensors_fit(const QHPI_Tensor* tensors, uint32_t number, const QHPI_Tensor_Signature_v1* all,
                       uint32_t known) {
  for (uint32_t i = 0; i < number; ++i) {
    if (all == NULL || known == 0) return 0;
    const QHPI_Tensor_Signature_v1* signature = &all[i < known ? i : known - 1];
    if (signature->element_type != QHPI_Any_Element_Type && signature->element_type != tensors[i].type) return 0;
    if (signature->layout != tensors[i].layout) return 0;
    if (signature->storage == QHPI_Storage_Indirect) return 0;
  }
  return 1;
}

static int fits(const QHPI_Kernel_v1* kernel, const Request* request) {
  return same_number(request->num_inputs, kernel->min_inputs, kernel->variable_inputs) &&
         same_number(request->num_outputs, kernel->min_outputs, kernel->variable_outputs) &&
         tensors_fit(request->inputs, request->num_inputs, kernel->input_signature, kernel->min_inputs) &&
         tensors_fit(request->outputs, request->num_outputs, kernel->output_signature, kernel->min_outputs);
}

/* The name as it is, or without the number behind it that keeps records of one kernel apart. */
static int is_wanted(const QHPI_Kernel_v1* kernel, const Request* request) {
  if (request->unit != 0 && (kernel->resources & request->unit) == 0) return 0;
  const size_t size = strlen(request->kernel);
  if (size == 0) return 1;
  const char* name = kernel->function_name ? kernel->function_name : "";
  return strncmp(name, request->kernel, size) == 0 && (name[size] == '\0' || name[size] == '_');
}

static uint32_t accepts(const QHPI_Kernel_v1* kernel, Request* request) {
  if (kernel->predicate == NULL) return 1;
  QHPI_Op* producers = calloc(request->num_inputs + 1, sizeof *producers);
  const QHPI_Tensor** inputs = calloc(request->num_inputs + 1, sizeof *inputs);
  if (producers == NULL || inputs == NULL) fail("out of memory");
  for (uint32_t i = 0; i < request->num_inputs; ++i) {
    producers[i].name = request->inputs[i].constant ? "$Const" : "Input";
    producers[i].num_outputs = 1;
    producers[i].outputs = &request->inputs[i];
    producers[i].constant = request->inputs[i].constant;
    inputs[i] = &request->inputs[i];
  }
  const QHPI_Op op = {request->op,          request->num_inputs, producers,
                      request->num_outputs, request->outputs,    0};
  const uint32_t fits = kernel->predicate(&op, request->num_inputs, inputs);
  free(inputs);
  free(producers);
  return fits;
}

/* The placeholder of an optional input that is left out: packages of udogen put it there when a graph is prepared. */
static const int32_t LEFT_OUT[] = {0x6f647561, 0x62736e74, -0x1d6e3c85, 0x5eed0c0d};

void drop_left_out(const QHPI_OpInfo_v1* op, Request* request) {
  if (op->early_rewrite != NULL) return;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < request->num_inputs; ++i) {
    const QHPI_Tensor* const input = &request->inputs[i];
    if (input->size == sizeof LEFT_OUT && memcmp(input->given, LEFT_OUT, sizeof LEFT_OUT) == 0) continue;
    request->inputs[kept++] = *input;
  }
  request->num_inputs = kept;
}

const QHPI_Kernel_v1* find_kernel(const QHPI_OpInfo_v1* op, Request* request) {
  for (uint32_t i = 0; i < op->num_kernels; ++i) {
    const QHPI_Kernel_v1* kernel = &op->kernels[i];
    if (is_wanted(kernel, request) && fits(kernel, request) && accepts(kernel, request)) return kernel;
  }
  char text[700] = "";
  uint32_t wanted = 0;
  for (uint32_t i = 0; i < op->num_kernels; ++i) wanted += is_wanted(&op->kernels[i], request) ? 1 : 0;
  if (wanted == 0 && op->num_kernels > 0) {
    append(text, sizeof text, "it has ");
    for (uint32_t i = 0; i < op->num_kernels; ++i) {
      append(text, sizeof text, i ? ", " : "");
      append(text, sizeof text, op->kernels[i].function_name ? op->kernels[i].function_name : "?");
      append(text, sizeof text, name_of_unit(op->kernels[i].resources));
    }
    wire_text_record(RECORD_DETAIL, "%s", text);
    fail("has no kernel record of that name or unit");
  }
  append(text, sizeof text, "given: inputs ");
  append_tensors(text, sizeof text, request->inputs, request->num_inputs);
  append(text, sizeof text, "; outputs ");
  append_tensors(text, sizeof text, request->outputs, request->num_outputs);
  wire_text_record(RECORD_DETAIL, "%s", text);
  for (uint32_t i = 0; i < op->num_kernels && i < MAX_SHOWN; ++i) {
    const QHPI_Kernel_v1* kernel = &op->kernels[i];
    text[0] = '\0';
    append(text, sizeof text, kernel->function_name ? kernel->function_name : "?");
    append(text, sizeof text, name_of_unit(kernel->resources));
    append(text, sizeof text, ": inputs ");
    append_signature(text, sizeof text, kernel->input_signature, kernel->min_inputs);
    append(text, sizeof text, "; outputs ");
    append_signature(text, sizeof text, kernel->output_signature, kernel->min_outputs);
    append(text, sizeof text, kernel->predicate != NULL ? "; with a condition" : "");
    wire_text_record(RECORD_DETAIL, "%s", text);
  }
  if (op->num_kernels > MAX_SHOWN) wire_text_record(RECORD_DETAIL, "... and %u more", op->num_kernels - MAX_SHOWN);
  fail("has no kernel record that fits these tensors");
}
