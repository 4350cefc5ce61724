/* Initializes the package, makes the operation and executes it, as Hexagon NN does on DSP V65 and V66. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dsp.h"

/* The package's own; the compiler gets its name as a macro. */
Qnn_ErrorHandle_t UDOGEN_PROVIDER(QnnOpPackage_Interface_t* interface);

static DspRequest request;
static Udo_TensorParam_t inputs[MAX_TENSORS];
static Udo_TensorParam_t outputs[MAX_TENSORS];
static Udo_TFQuantize_t ranges[MAX_TENSORS]; /* of the outputs, from the client */

static void warn(const char* text) {
  const uint32_t level = QNN_LOG_LEVEL_WARN;
  wire_record(RECORD_LOG, &level, sizeof level, text, (uint32_t)strlen(text));
}

static void need(Udo_ErrorType_t code) {
  const uint32_t status = (uint32_t)code;
  if (code == UDO_NO_ERROR) return;
  wire_record(RECORD_STATUS, &status, sizeof status, NULL, 0);
  _exit(2);
}

static void need_package(Qnn_ErrorHandle_t code, const char* function) {
  if (code != QNN_SUCCESS) fail("%s of the package returned %u", function, (unsigned)code);
}

static const QnnDspOpPackage_OperationInfo_t* find_op(const QnnOpPackage_Info_t* info) {
  if (info == NULL || info->packageName == NULL || strcmp(info->packageName, request.package) != 0) {
    fail("getInfo reports another package than %s", request.package);
  }
  for (uint32_t i = 0; i < info->numOperations; ++i) {
    const QnnDspOpPackage_OperationInfo_t* op = info->operationInfo[i];
    if (strcmp(op->opType, request.op) == 0) return op;
  }
  fail("the library of this op has only other ops");
}

static void check_quantization(const char* role, uint32_t number, const Udo_QuantizationType_t* types,
                               const Tensor* tensors) {
  for (uint32_t i = 0; i < number; ++i) {
    const Udo_TensorParam_t* raw = &tensors[i].raw;
    if (raw->layout == UDO_LAYOUT_NULL) continue;
    if ((types[i] == UDO_QUANTIZATION_NONE) != (raw->dataType == UDO_DATATYPE_FLOAT_32)) {
      fail("%s %u is %s by queryOp, and was given as %s", role, i,
           types[i] == UDO_QUANTIZATION_NONE ? "floats" : "stored numbers with a range",
           raw->dataType == UDO_DATATYPE_FLOAT_32 ? "floats" : "bytes");
    }
  }
}

static void query(const QnnDspOpPackage_OperationInfo_t* op) {
  uint32_t number[2] = {0, 0};
  Udo_QuantizationType_t* types[2] = {NULL, NULL};
  Udo_HexNNTensorLayout_t* layouts[2] = {NULL, NULL};
  need(op->queryOp(request.op, request.num_params, request.params, &number[0], &types[0], &layouts[0], &number[1],
                   &types[1], &layouts[1]));
  if (number[0] < request.num_inputs || number[1] < request.num_outputs) {
    fail("queryOp reports %u inputs and %u outputs; %u and %u were given", number[0], number[1], request.num_inputs,
         request.num_outputs);
  }
  for (uint32_t i = 0; i < number[0] && layouts[0] != NULL; ++i) {
    if (layouts[0][i] != UDO_DSP_TENSOR_LAYOUT_PLAIN) fail("input %u requires layout D32, which is not emulated", i);
  }
  for (uint32_t i = 0; i < number[1] && layouts[1] != NULL; ++i) {
    if (layouts[1][i] != UDO_DSP_TENSOR_LAYOUT_PLAIN) fail("output %u requires layout D32, which is not emulated", i);
  }
  check_quantization("input", request.num_inputs, types[0], request.inputs);
  check_quantization("output", request.num_outputs, types[1], request.outputs);
}

__attribute__((noinline, used)) Udo_ErrorType_t udogen_call_kernel(const QnnDspOpPackage_OperationInfo_t* op,
                                                                   Udo_Operation_t operation) {
  udogen_count_begin();
  const Udo_ErrorType_t status = op->executeOp(operation, true, 0, NULL);
  udogen_count_end();
  return status;
}

static void execute(const QnnDspOpPackage_OperationInfo_t* op, Udo_Operation_t operation, uint32_t number) {
  guards_open(number);
  for (uint32_t i = 0; i < request.num_inputs; ++i) {
    if (request.inputs[i].given != NULL && inputs[i].tensorData != NULL) {
      memcpy(inputs[i].tensorData, request.inputs[i].given, request.inputs[i].size);
    }
  }
  for (uint32_t i = 0; i < request.num_outputs; ++i) request.outputs[i].set_size = UNSET_SIZE;
  guards_close();
  const uint64_t begun = nanoseconds();
  dsp_executes = 1;
  const Udo_ErrorType_t status = udogen_call_kernel(op, operation);
  dsp_executes = 0;
  const uint64_t took = nanoseconds() - begun;
  need(status);
  guards_compare();
  wire_record(RECORD_TIME, &took, sizeof took, NULL, 0);
}

static uint32_t bytes_of(const Udo_TensorParam_t* tensor) {
  uint32_t bytes = tensor->dataType == UDO_DATATYPE_FLOAT_32 ? 4 : 1;
  for (uint32_t axis = 0; axis < tensor->tensorRank; ++axis) bytes *= tensor->currDimensions[axis];
  return bytes;
}

static void record_output(uint32_t i) {
  const Tensor* tensor = &request.outputs[i];
  if (outputs[i].layout == UDO_LAYOUT_NULL) return;
  const uint32_t bytes = bytes_of(&outputs[i]);
  if (tensor->set_size == UNSET_SIZE) fail("executeOp did not set the size of output %u (udoSetOutputTensorSize)", i);
  if (tensor->set_size != bytes) {
    fail("executeOp set %u bytes for output %u, whose dimensions make %u", tensor->set_size, i, bytes);
  }
  if (memcmp(&ranges[i], &outputs[i].quantizeParams.TFParams, sizeof ranges[i]) != 0) {
    char text[200];
    snprintf(text, sizeof text, "output %u now represents %g to %g", i,
             (double)outputs[i].quantizeParams.TFParams.minValue, (double)outputs[i].quantizeParams.TFParams.maxValue);
    warn(text);
  }
  wire_record(RECORD_SHAPE, outputs[i].currDimensions, outputs[i].tensorRank * 4, NULL, 0);
  wire_record(RECORD_OUTPUT, outputs[i].tensorData, bytes, NULL, 0);
}

int main(int argc, char** argv) {
  char text[200];
  if (argc != 3) return 3;
  wire_open(argv[1], argv[2]);
  dsp_read(&request);
  guards_watch();

  wire_text_record(RECORD_PHASE, "register the op package");
  QnnOpPackage_Interface_t interface;
  memset(&interface, 0, sizeof interface);
  need_package(UDOGEN_PROVIDER(&interface), "the interface provider");
  give_log(&interface);
  QnnDspOpPackage_GlobalInfrastructure_t infrastructure = {dsp_functions(&request)};
  need_package(interface.v1_4.init(&infrastructure), "init");
  const QnnOpPackage_Info_t* info = NULL;
  need_package(interface.v1_4.getInfo(&info), "getInfo");
  const QnnDspOpPackage_OperationInfo_t* op = find_op(info);

  wire_text_record(RECORD_PHASE, "validate the op");
  need(op->validateOp(request.op, request.num_params, request.params));
  query(op);

  wire_text_record(RECORD_PHASE, "create the operation");
  guards_open(0);
  Udo_HexNNv2OpFactoryInfra_t graph = {1};
  Udo_OpFactory_t factory = NULL;
  need(op->createOpFactory(UDO_CORETYPE_DSP, &graph, request.op, request.num_params, request.params, &factory));
  dsp_forget_params(&request);
  for (uint32_t i = 0; i < request.num_inputs; ++i) inputs[i] = request.inputs[i].raw;
  for (uint32_t i = 0; i < request.num_outputs; ++i) {
    outputs[i] = request.outputs[i].raw;
    ranges[i] = outputs[i].quantizeParams.TFParams;
  }
  Udo_Operation_t operation = NULL;
  need(op->createOperation(factory, dsp_operation(), request.num_inputs, inputs, request.num_outputs, outputs,
                           &operation));
  guards_compare_bytes();

  wire_text_record(RECORD_PHASE, "execute");
  for (uint32_t i = 0; i < request.loops; ++i) execute(op, operation, i);
  guards_say();
  const uint32_t workers = dsp_most_workers();
  snprintf(text, sizeof text, "%s::execute", request.op);
  wire_record(RECORD_KERNEL, &workers, sizeof workers, text, (uint32_t)strlen(text));
  for (uint32_t i = 0; i < request.num_outputs; ++i) record_output(i);
  if (dsp_heap_uses() > 0) {
    snprintf(text, sizeof text, "executeOp used the heap %u times, which the documentation forbids", dsp_heap_uses());
    warn(text);
  }

  wire_text_record(RECORD_PHASE, "release the operation");
  need(op->releaseOp(operation));
  need(op->releaseOpFactory(factory));
  need_package(interface.v1_4.terminate(), "terminate");
  if (dsp_blocks_left() > 0) {
    snprintf(text, sizeof text, "%u blocks of the DSP's memory were never given back", dsp_blocks_left());
    warn(text);
  }
  wire_record(RECORD_DONE, NULL, 0, NULL, 0);
  return 0;
}
