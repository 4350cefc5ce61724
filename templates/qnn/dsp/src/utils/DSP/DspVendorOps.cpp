// Auto-generated part of every op package with kernels in Qualcomm's style; regenerating rewrites this file.
#include "DSP/DspVendorOps.hpp"

#include <cstring>

namespace udo {
namespace {

const VendorOp* of = nullptr;
QnnOpPackage_GlobalInfrastructure_t infrastructure = nullptr;
UdoDspShared* functions = nullptr;  // of the op, while the package is initialized

const Udo_HexNNv2GlobalInfra_t& dsp() { return infrastructure->dspGlobalInfra->hexNNv2Infra; }

Udo_ErrorType_t createOpFactory(Udo_CoreType_t core, void* perFactory, Udo_String_t opType, std::uint32_t count,
                                Udo_Param_t* params, Udo_OpFactory_t* factory) {
  const Running running(of->op);
  return functions->createOpFactory(infrastructure, core, perFactory, opType, count, params, factory);
}

Udo_ErrorType_t releaseOpFactory(Udo_OpFactory_t factory) {
  const Running running(of->op);
  return factory == nullptr ? UDO_NO_ERROR : functions->releaseOpFactory(infrastructure, factory);
}

Udo_ErrorType_t createOperation(Udo_OpFactory_t factory, void* perOp, std::uint32_t inputCount, Udo_TensorParam_t* inputs,
                                std::uint32_t outputCount, Udo_TensorParam_t* outputs, Udo_Operation_t* operation) {
  if (factory == nullptr || operation == nullptr) return UDO_INVALID_ARGUMENT;
  auto* const made = static_cast<OpParams_t*>(dsp().udoMalloc(sizeof(OpParams_t)));
  if (made == nullptr) return UDO_INVALID_ARGUMENT;
  *made = {factory, inputs == nullptr ? 0 : inputCount, inputs, outputs == nullptr ? 0 : outputCount, outputs, perOp};
  *operation = reinterpret_cast<Udo_Operation_t>(made);
  return UDO_NO_ERROR;
}

Udo_ErrorType_t executeOp(Udo_Operation_t operation, bool blocking, const std::uint32_t id, Udo_ExternalNotify_t notify) {
  if (operation == nullptr) return UDO_INVALID_ARGUMENT;
  const Running running(of->op);
  ++*of->executions;
  return functions->executeOp(infrastructure, operation, blocking, id, notify);
}

Udo_ErrorType_t releaseOp(Udo_Operation_t operation) {
  if (operation != nullptr) dsp().udoFree(operation);
  return UDO_NO_ERROR;
}

Qnn_ErrorHandle_t initialize(QnnOpPackage_GlobalInfrastructure_t given) {
  if (given == nullptr || given->dspGlobalInfra == nullptr) return QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT;
  if (functions != nullptr) return QNN_OP_PACKAGE_ERROR_LIBRARY_ALREADY_INITIALIZED;
  infrastructure = given;
  functions = of->make(given);
  if (functions == nullptr) return QNN_OP_PACKAGE_ERROR_GENERAL;
  return executions.begin();
}

Qnn_ErrorHandle_t terminate() {
  if (functions == nullptr) return QNN_OP_PACKAGE_ERROR_LIBRARY_NOT_INITIALIZED;
  of->release(infrastructure, functions);
  functions = nullptr;
  executions.end();
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t getInfo(const QnnOpPackage_Info_t** info) {
  if (info == nullptr) return QNN_OP_PACKAGE_ERROR_INVALID_INFO;
  if (functions == nullptr) return QNN_OP_PACKAGE_ERROR_LIBRARY_NOT_INITIALIZED;
  static QnnDspOpPackage_OperationInfo_t operation;
  static const QnnOpPackage_OperationInfo_t operations[] = {&operation};
  static QnnOpPackage_Info_t package;
  static const char* names[1];
  names[0] = of->op;
  operation = {functions->opType,      functions->numOfStaticParams, functions->numOfInputs, functions->numOfOutputs,
               createOpFactory,        createOperation,              executeOp,              releaseOp,
               releaseOpFactory,       functions->validateOp,        functions->queryOp};
  package = {};
  package.packageName = of->package;
  package.operationNames = names;
  package.operationInfo = operations;
  package.numOperations = 1;
  *info = &package;
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t validateOpConfig(Qnn_OpConfig_t given) {
  const Qnn_OpConfigV1_t& config = given.v1;
  if (functions == nullptr) return QNN_OP_PACKAGE_ERROR_LIBRARY_NOT_INITIALIZED;
  const bool named = std::strcmp(config.packageName, of->package) == 0 && std::strcmp(config.typeName, of->op) == 0;
  const bool counted = config.numOfInputs == functions->numOfInputs && config.numOfOutputs == functions->numOfOutputs &&
                       config.numOfParams == functions->numOfStaticParams;
  return named && counted ? QNN_SUCCESS : QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE;
}

}  // namespace

void fillInterface(QnnOpPackage_Interface_t& interface, const VendorOp& op) {
  of = &op;
  interface.interfaceVersion = {1, 4, 0};
  interface.v1_4 = {initialize, terminate,     getInfo,     validateOpConfig, nullptr,
                    nullptr,    logInitialize, logSetLevel, logTerminate};
}

}  // namespace udo
