#include <cstring>

namespace udo {
namespace {

const VendorOp* of = nullptr;
QnnOpPackage_GlobalInfrastructure_t infrastructure = nullptr;
UdoDspShared* functions = nullptr;  // of the op, while the package is initialized

const Udo_HexNNv2GlobalInfra_t& dsp() { return infrastructure->dspGlobalInfra->hexNNv2Infra; }

Udo_Param_t paramOf(const ParamSpec& spec, const ParamDefault& value) {
  Udo_Param_t param = {};
  param.paramName = const_cast<char*>(spec.name);
  if (value.type == textType) {
    param.paramType = UDO_PARAMTYPE_STRING;
    param.stringParam = static_cast<char*>(const_cast<void*>(value.data));
  } else if (spec.scalar) {
    param.paramType = UDO_PARAMTYPE_SCALAR;
    param.scalarParam.dataType = udoTypeOf(value.type);
    std::memcpy(&param.scalarParam.dataValue, value.data, value.bytes);
  } else {
    param.paramType = UDO_PARAMTYPE_TENSOR;
    auto* const dims = const_cast<std::uint32_t*>(value.dims.items);
    param.tensorParam = {dims, dims, {}, static_cast<std::uint32_t>(value.dims.count), udoTypeOf(value.type),
                         UDO_LAYOUT_NHWC, const_cast<void*>(value.data)};
  }
  return param;
}

// Calls a function of the kernel with all parameters.
template <class Call>
Udo_ErrorType_t withParams(std::uint32_t count, const Udo_Param_t* params, const Call& call) {
  constexpr std::size_t most = 64;
  Udo_Param_t all[most];
  const Running running(of->spec.name);
  if (of->spec.params.count > most) return UDO_WRONG_NUM_OF_PARAMS;
  std::uint32_t known = 0;
  const auto put = [&](std::size_t at, const ParamSpec& spec, const ParamDefault* value) {
    for (std::uint32_t i = 0; i < count; ++i) {
      if (std::strcmp(params[i].paramName, spec.name) != 0) continue;
      all[at] = params[i];
      return ++known != 0;
    }
    if (value != nullptr) all[at] = paramOf(spec, *value);
    return value != nullptr;
  };
  const char* const missing = completeParams(of->spec, of->sorted, put);
  if (missing != nullptr) return isMissing(missing), UDO_WRONG_NUM_OF_PARAMS;
  if (known != count) return error("has a parameter that the config does not have, or one twice"), UDO_INVALID_ARGUMENT;
  return call(static_cast<std::uint32_t>(of->spec.params.count), all);
}

Udo_ErrorType_t validateOp(Udo_String_t type, std::uint32_t count, const Udo_Param_t* params) {
  return withParams(count, params, [&](std::uint32_t n, Udo_Param_t* all) { return functions->validateOp(type, n, all); });
}

Udo_ErrorType_t queryOp(Udo_String_t type, std::uint32_t count, const Udo_Param_t* params, std::uint32_t* inputs,
                        Udo_QuantizationType_t** inputTypes, Udo_HexNNTensorLayout_t** inputLayouts,
                        std::uint32_t* outputs, Udo_QuantizationType_t** outputTypes,
                        Udo_HexNNTensorLayout_t** outputLayouts) {
  return withParams(count, params, [&](std::uint32_t n, Udo_Param_t* all) {
    return functions->queryOp(type, n, all, inputs, inputTypes, inputLayouts, outputs, outputTypes, outputLayouts);
  });
}

Udo_ErrorType_t createOpFactory(Udo_CoreType_t core, void* perFactory, Udo_String_t opType, std::uint32_t count,
                                Udo_Param_t* params, Udo_OpFactory_t* factory) {
  return withParams(count, params, [&](std::uint32_t n, Udo_Param_t* all) {
    return functions->createOpFactory(infrastructure, core, perFactory, opType, n, all, factory);
  });
}

Udo_ErrorType_t releaseOpFactory(Udo_OpFactory_t factory) {
  const Running running(of->spec.name);
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
  const Running running(of->spec.name);
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
  names[0] = of->spec.name;
  operation = {functions->opType,      functions->numOfStaticParams, functions->numOfInputs, functions->numOfOutputs,
               createOpFactory,        createOperation,              executeOp,              releaseOp,
               releaseOpFactory,       validateOp,                   queryOp};
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
  const bool named = std::strcmp(config.packageName, of->package) == 0 && std::strcmp(config.typeName, of->spec.name) == 0;
  const bool counted = config.numOfInputs == functions->numOfInputs && config.numOfOutputs == functions->numOfOutputs &&
                       config.numOfParams <= of->spec.params.count;
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
