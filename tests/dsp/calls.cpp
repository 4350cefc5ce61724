// Calls the op package of Several's op Scale, correctly and incorrectly, and prints the code of each call.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "udogen.hpp"
#include "DSP/QnnDspOpPackage.h"

extern "C" Qnn_ErrorHandle_t SeveralInterfaceProvider(QnnOpPackage_Interface_t*);
extern "C" std::uint64_t SeveralExecutions(const char* op);
extern "C" const char* SeveralCounted(void);

namespace {

int blocks = 0;
void* allocate(std::size_t size) { return ++blocks, std::malloc(size); }
void* allocateAligned(std::size_t n, std::size_t size) { return ++blocks, std::aligned_alloc(n, (size + n - 1) / n * n); }
void release(void* memory) { --blocks, std::free(memory); }
int setSize(void*, std::uint32_t, std::uint32_t size) { return size > 64 ? -1 : 0; }
std::uint32_t notified = 0;
void runWorkers(void* operation, std::uint32_t threads, workerThread_t work, void* data) {
  while (threads-- > 0) work(operation, data);
}
Udo_ErrorType_t notify(const std::uint32_t id) { return notified = id, UDO_NO_ERROR; }

void show(const char* what, unsigned long long code) { std::printf("%s: %llu\n", what, code); }

}  // namespace

int main() {
  show("provider NULL", SeveralInterfaceProvider(nullptr));
  QnnOpPackage_Interface_t interface;
  show("provider", SeveralInterfaceProvider(&interface));
  const auto& package = interface.v1_4;
  const QnnOpPackage_Info_t* info = nullptr;
  show("terminate before init", package.terminate());
  show("getInfo before init", package.getInfo(&info));
  show("init NULL", package.init(nullptr));
  QnnDspOpPackage_GlobalInfrastructure_t infrastructure = {nullptr};
  show("init empty", package.init(&infrastructure));
  Udo_DspGlobalInfrastructure_t global = {};
  global.infraType = UDO_INFRA_HEXNN_V3;
  infrastructure.dspGlobalInfra = &global;
  show("init V3", package.init(&infrastructure));
  global.infraType = UDO_INFRA_HEXNN_V2;
  global.hexNNv2Infra.udoMalloc = allocate;
  global.hexNNv2Infra.udoMemalign = allocateAligned;
  global.hexNNv2Infra.udoFree = release;
  global.hexNNv2Infra.udoSetOutputTensorSize = setSize;
  show("init", package.init(&infrastructure));
  show("init twice", package.init(&infrastructure));
  show("getInfo NULL", package.getInfo(nullptr));
  show("getInfo", package.getInfo(&info));
  std::printf("%s %u %s\n", info->packageName, info->numOperations, info->operationNames[0]);
  const QnnDspOpPackage_OperationInfo_t& op = *info->operationInfo[0];
  std::printf("%s %u %u %u\n", op.opType, op.numOfStaticParams, op.numOfInputs, op.numOfOutputs);

  char scale[] = "Scale", head[] = "Head", factorName[] = "factor", shiftName[] = "shift", other[] = "other", text[] = "x";
  Udo_Param_t factor = {};
  factor.paramType = UDO_PARAMTYPE_SCALAR;
  factor.paramName = factorName;
  factor.scalarParam.dataType = UDO_DATATYPE_FLOAT_32;
  factor.scalarParam.dataValue.floatValue = 2.0f;
  show("validate", op.validateOp(scale, 1, &factor));
  show("validate NULL", op.validateOp(nullptr, 1, &factor));
  show("validate other op", op.validateOp(head, 1, &factor));
  show("validate without factor", op.validateOp(scale, 0, nullptr));
  show("validate params NULL", op.validateOp(scale, 1, nullptr));
  Udo_Param_t wrong[5] = {factor, factor, factor, factor, factor};
  show("validate too many", op.validateOp(scale, 5, wrong));
  wrong[1].paramName = other;
  show("validate unknown param", op.validateOp(scale, 2, wrong));
  wrong[1].paramName = shiftName;
  show("validate scalar for tensor", op.validateOp(scale, 2, wrong));
  wrong[1].paramType = UDO_PARAMTYPE_TENSOR;
  wrong[1].tensorParam = {};
  wrong[1].tensorParam.dataType = UDO_DATATYPE_FLOAT_32;
  show("validate float for integer", op.validateOp(scale, 2, wrong));
  wrong[0].paramType = UDO_PARAMTYPE_STRING;
  wrong[0].stringParam = text;
  show("validate text for scalar", op.validateOp(scale, 1, wrong));

  std::uint32_t inputs = 0, outputs = 0;
  Udo_QuantizationType_t *inputTypes = nullptr, *outputTypes = nullptr;
  Udo_HexNNTensorLayout_t *inputLayouts = nullptr, *outputLayouts = nullptr;
  show("query", op.queryOp(scale, 1, &factor, &inputs, &inputTypes, &inputLayouts, &outputs, &outputTypes, &outputLayouts));
  std::printf("%u %d %u %d\n", inputs, inputTypes[0], outputs, outputTypes[0]);
  show("query NULL", op.queryOp(scale, 1, &factor, &inputs, nullptr, &inputLayouts, &outputs, &outputTypes, &outputLayouts));
  show("query other op", op.queryOp(head, 1, &factor, &inputs, &inputTypes, &inputLayouts, &outputs, &outputTypes, &outputLayouts));

  Udo_OpFactory_t factory = nullptr;
  show("factory for CPU", op.createOpFactory(UDO_CORETYPE_CPU, nullptr, scale, 1, &factor, &factory));
  show("factory of other op", op.createOpFactory(UDO_CORETYPE_DSP, nullptr, head, 1, &factor, &factory));
  show("factory nowhere", op.createOpFactory(UDO_CORETYPE_DSP, nullptr, scale, 1, &factor, nullptr));
  show("factory", op.createOpFactory(UDO_CORETYPE_DSP, nullptr, scale, 1, &factor, &factory));
  factor.scalarParam.dataValue.floatValue = 99.0f;  // the factory has its own copy

  float in[4] = {1, 2, 3, 4}, out[4] = {};
  std::uint32_t dims[1] = {4}, outDims[1] = {4}, current[1] = {0};
  Udo_TensorParam_t x = {dims, dims, {UDO_QUANTIZATION_NONE, {{0, 0}}}, 1, UDO_DATATYPE_FLOAT_32, UDO_LAYOUT_NHWC, in};
  Udo_TensorParam_t y = {outDims, current, {UDO_QUANTIZATION_NONE, {{0, 0}}}, 1, UDO_DATATYPE_FLOAT_32, UDO_LAYOUT_NHWC, out};
  Udo_TensorParam_t three[3] = {x, x, x};
  Udo_Operation_t operation = nullptr;
  show("operation without factory", op.createOperation(nullptr, nullptr, 1, &x, 1, &y, &operation));
  show("operation nowhere", op.createOperation(factory, nullptr, 1, &x, 1, &y, nullptr));
  show("operation with 3 inputs", op.createOperation(factory, nullptr, 3, three, 1, &y, &operation));
  show("operation with no inputs", op.createOperation(factory, nullptr, 0, nullptr, 1, &y, &operation));
  show("operation with no outputs", op.createOperation(factory, nullptr, 1, &x, 0, nullptr, &operation));
  show("operation with inputs nowhere", op.createOperation(factory, nullptr, 1, nullptr, 1, &y, &operation));
  show("operation", op.createOperation(factory, nullptr, 1, &x, 1, &y, &operation));
  show("execute NULL", op.executeOp(nullptr, true, 0, nullptr));
  show("executions before", SeveralExecutions("Scale"));
  show("execute", op.executeOp(operation, true, 0, nullptr));
  std::printf("%g %g %g %g\n", out[0], out[1], out[2], out[3]);
  show("execute and notify", op.executeOp(operation, false, 42, notify));
  show("notified", notified);
  show("executions", SeveralExecutions("Scale"));
  show("executions of all ops", SeveralExecutions(nullptr));
  show("executions of other op", SeveralExecutions("Head"));
  std::printf("counted: %s\n", SeveralCounted());
  x.dataType = UDO_DATATYPE_FIXED_8;
  show("execute with bytes", op.executeOp(operation, true, 0, nullptr));
  x.dataType = UDO_DATATYPE_FLOAT_32;
  x.layout = UDO_LAYOUT_NULL;
  show("execute without input", op.executeOp(operation, true, 0, nullptr));
  x.layout = UDO_LAYOUT_NHWC;
  outDims[0] = 1000;
  show("execute with too small memory", op.executeOp(operation, true, 0, nullptr));
  global.hexNNv2Infra.udoRunWorkerThreads = runWorkers;
  const udo::Dsp dsp(global.hexNNv2Infra, "Scale", nullptr, nullptr, 0);
  show("first error of 3 workers", dsp.run(3, [](std::uint32_t thread, std::uint32_t) { return udo::Status{6} * thread; }));
  show("release NULL", op.releaseOp(nullptr));
  show("release", op.releaseOp(operation));
  show("release factory NULL", op.releaseOpFactory(nullptr));
  show("release factory", op.releaseOpFactory(factory));

  Qnn_OpConfig_t config = {};
  config.version = QNN_OPCONFIG_VERSION_1;
  show("config empty", package.validateOpConfig(config));
  config.v1.packageName = "Several";
  config.v1.typeName = "Head";
  show("config of other op", package.validateOpConfig(config));
  config.v1.typeName = "Scale";
  show("config without tensors", package.validateOpConfig(config));
  config.v1.numOfInputs = config.v1.numOfOutputs = 1;
  show("config", package.validateOpConfig(config));
  show("createOpImpl", package.createOpImpl(nullptr, nullptr, nullptr));
  show("freeOpImpl", package.freeOpImpl(nullptr));

  show("terminate the second", package.terminate());
  show("factory for the first", op.createOpFactory(UDO_CORETYPE_DSP, nullptr, scale, 1, &factor, &factory));
  show("release it", op.releaseOpFactory(factory));
  show("terminate", package.terminate());
  show("terminate twice", package.terminate());
  show("factory after terminate", op.createOpFactory(UDO_CORETYPE_DSP, nullptr, scale, 1, &factor, &factory));
  show("execute after terminate", op.executeOp(operation, true, 0, nullptr));
  show("init again", package.init(&infrastructure));
  show("blocks left", static_cast<unsigned long long>(blocks));
  return 0;
}
