// Calls the op package of Several's op Scale, right and wrong, and prints what each call answers.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

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
Udo_ErrorType_t notify(const std::uint32_t id) { return notified = id, UDO_NO_ERROR; }

void told(const char* what, unsigned long long code) { std::printf("%s: %llu\n", what, code); }

}  // namespace

int main() {
  told("provider NULL", SeveralInterfaceProvider(nullptr));
  QnnOpPackage_Interface_t interface;
  told("provider", SeveralInterfaceProvider(&interface));
  const auto& package = interface.v1_4;
  const QnnOpPackage_Info_t* info = nullptr;
  told("terminate before init", package.terminate());
  told("getInfo before init", package.getInfo(&info));
  told("init NULL", package.init(nullptr));
  QnnDspOpPackage_GlobalInfrastructure_t infrastructure = {nullptr};
  told("init empty", package.init(&infrastructure));
  Udo_DspGlobalInfrastructure_t global = {};
  global.infraType = UDO_INFRA_HEXNN_V3;
  infrastructure.dspGlobalInfra = &global;
  told("init V3", package.init(&infrastructure));
  global.infraType = UDO_INFRA_HEXNN_V2;
  global.hexNNv2Infra.udoMalloc = allocate;
  global.hexNNv2Infra.udoMemalign = allocateAligned;
  global.hexNNv2Infra.udoFree = release;
  global.hexNNv2Infra.udoSetOutputTensorSize = setSize;
  told("init", package.init(&infrastructure));
  told("init twice", package.init(&infrastructure));
  told("getInfo NULL", package.getInfo(nullptr));
  told("getInfo", package.getInfo(&info));
  std::printf("%s %u %s\n", info->packageName, info->numOperations, info->operationNames[0]);
  const QnnDspOpPackage_OperationInfo_t& op = *info->operationInfo[0];
  std::printf("%s %u %u %u\n", op.opType, op.numOfStaticParams, op.numOfInputs, op.numOfOutputs);

  char scale[] = "Scale", head[] = "Head", factorName[] = "factor", shiftName[] = "shift", other[] = "other", text[] = "x";
  Udo_Param_t factor = {};
  factor.paramType = UDO_PARAMTYPE_SCALAR;
  factor.paramName = factorName;
  factor.scalarParam.dataType = UDO_DATATYPE_FLOAT_32;
  factor.scalarParam.dataValue.floatValue = 2.0f;
  told("validate", op.validateOp(scale, 1, &factor));
  told("validate NULL", op.validateOp(nullptr, 1, &factor));
  told("validate other op", op.validateOp(head, 1, &factor));
  told("validate without factor", op.validateOp(scale, 0, nullptr));
  told("validate params NULL", op.validateOp(scale, 1, nullptr));
  Udo_Param_t wrong[5] = {factor, factor, factor, factor, factor};
  told("validate too many", op.validateOp(scale, 5, wrong));
  wrong[1].paramName = other;
  told("validate unknown param", op.validateOp(scale, 2, wrong));
  wrong[1].paramName = shiftName;
  told("validate scalar for tensor", op.validateOp(scale, 2, wrong));
  wrong[1].paramType = UDO_PARAMTYPE_TENSOR;
  wrong[1].tensorParam = {};
  wrong[1].tensorParam.dataType = UDO_DATATYPE_FLOAT_32;
  told("validate float for integer", op.validateOp(scale, 2, wrong));
  wrong[0].paramType = UDO_PARAMTYPE_STRING;
  wrong[0].stringParam = text;
  told("validate text for scalar", op.validateOp(scale, 1, wrong));

  std::uint32_t inputs = 0, outputs = 0;
  Udo_QuantizationType_t *inputTypes = nullptr, *outputTypes = nullptr;
  Udo_HexNNTensorLayout_t *inputLayouts = nullptr, *outputLayouts = nullptr;
  told("query", op.queryOp(scale, 1, &factor, &inputs, &inputTypes, &inputLayouts, &outputs, &outputTypes, &outputLayouts));
  std::printf("%u %d %u %d\n", inputs, inputTypes[0], outputs, outputTypes[0]);
  told("query NULL", op.queryOp(scale, 1, &factor, &inputs, nullptr, &inputLayouts, &outputs, &outputTypes, &outputLayouts));
  told("query other op", op.queryOp(head, 1, &factor, &inputs, &inputTypes, &inputLayouts, &outputs, &outputTypes, &outputLayouts));

  Udo_OpFactory_t factory = nullptr;
  told("factory for CPU", op.createOpFactory(UDO_CORETYPE_CPU, nullptr, scale, 1, &factor, &factory));
  told("factory of other op", op.createOpFactory(UDO_CORETYPE_DSP, nullptr, head, 1, &factor, &factory));
  told("factory nowhere", op.createOpFactory(UDO_CORETYPE_DSP, nullptr, scale, 1, &factor, nullptr));
  told("factory", op.createOpFactory(UDO_CORETYPE_DSP, nullptr, scale, 1, &factor, &factory));
  factor.scalarParam.dataValue.floatValue = 99.0f;  // the factory has its own

  float in[4] = {1, 2, 3, 4}, out[4] = {};
  std::uint32_t dims[1] = {4}, outDims[1] = {4}, current[1] = {0};
  Udo_TensorParam_t x = {dims, dims, {UDO_QUANTIZATION_NONE, {{0, 0}}}, 1, UDO_DATATYPE_FLOAT_32, UDO_LAYOUT_NHWC, in};
  Udo_TensorParam_t y = {outDims, current, {UDO_QUANTIZATION_NONE, {{0, 0}}}, 1, UDO_DATATYPE_FLOAT_32, UDO_LAYOUT_NHWC, out};
  Udo_TensorParam_t three[3] = {x, x, x};
  Udo_Operation_t operation = nullptr;
  told("operation without factory", op.createOperation(nullptr, nullptr, 1, &x, 1, &y, &operation));
  told("operation nowhere", op.createOperation(factory, nullptr, 1, &x, 1, &y, nullptr));
  told("operation with 3 inputs", op.createOperation(factory, nullptr, 3, three, 1, &y, &operation));
  told("operation with no inputs", op.createOperation(factory, nullptr, 0, nullptr, 1, &y, &operation));
  told("operation with no outputs", op.createOperation(factory, nullptr, 1, &x, 0, nullptr, &operation));
  told("operation with inputs nowhere", op.createOperation(factory, nullptr, 1, nullptr, 1, &y, &operation));
  told("operation", op.createOperation(factory, nullptr, 1, &x, 1, &y, &operation));
  told("execute NULL", op.executeOp(nullptr, true, 0, nullptr));
  told("executions before", SeveralExecutions("Scale"));
  told("execute", op.executeOp(operation, true, 0, nullptr));
  std::printf("%g %g %g %g\n", out[0], out[1], out[2], out[3]);
  told("execute and tell", op.executeOp(operation, false, 42, notify));
  told("told", notified);
  told("executions", SeveralExecutions("Scale"));
  told("executions of all ops", SeveralExecutions(nullptr));
  told("executions of other op", SeveralExecutions("Head"));
  std::printf("counted: %s\n", SeveralCounted());
  x.dataType = UDO_DATATYPE_FIXED_8;
  told("execute with bytes", op.executeOp(operation, true, 0, nullptr));
  x.dataType = UDO_DATATYPE_FLOAT_32;
  x.layout = UDO_LAYOUT_NULL;
  told("execute without input", op.executeOp(operation, true, 0, nullptr));
  x.layout = UDO_LAYOUT_NHWC;
  outDims[0] = 1000;
  told("execute without room", op.executeOp(operation, true, 0, nullptr));
  told("release NULL", op.releaseOp(nullptr));
  told("release", op.releaseOp(operation));
  told("release factory NULL", op.releaseOpFactory(nullptr));
  told("release factory", op.releaseOpFactory(factory));

  Qnn_OpConfig_t config = {};
  config.version = QNN_OPCONFIG_VERSION_1;
  told("config empty", package.validateOpConfig(config));
  config.v1.packageName = "Several";
  config.v1.typeName = "Head";
  told("config of other op", package.validateOpConfig(config));
  config.v1.typeName = "Scale";
  told("config without tensors", package.validateOpConfig(config));
  config.v1.numOfInputs = config.v1.numOfOutputs = 1;
  told("config", package.validateOpConfig(config));
  told("createOpImpl", package.createOpImpl(nullptr, nullptr, nullptr));
  told("freeOpImpl", package.freeOpImpl(nullptr));

  told("terminate the second", package.terminate());
  told("factory for the first", op.createOpFactory(UDO_CORETYPE_DSP, nullptr, scale, 1, &factor, &factory));
  told("release it", op.releaseOpFactory(factory));
  told("terminate", package.terminate());
  told("terminate twice", package.terminate());
  told("factory after terminate", op.createOpFactory(UDO_CORETYPE_DSP, nullptr, scale, 1, &factor, &factory));
  told("execute after terminate", op.executeOp(operation, true, 0, nullptr));
  told("init again", package.init(&infrastructure));
  told("blocks left", static_cast<unsigned long long>(blocks));
  return 0;
}
