#include <cstring>

namespace udo {
namespace {

const char* packageName = "";
const OpEntry* theOp = nullptr;
OpFacts kernel;  // of the op
const Udo_HexNNv2GlobalInfra_t* dspFunctions = nullptr;  // set between init and terminate

Udo_ErrorType_t codeOf(Status status) {
  if (status == ok) return UDO_NO_ERROR;
  return status == QNN_OP_PACKAGE_ERROR_UNSUPPORTED_FEATURE ? UDO_UNSUPPORTED_FEATURE : UDO_UNKNOWN_ERROR;
}

Udo_ErrorType_t notInitialized() {
  return refuse(UDO_UNSUPPORTED_FEATURE, "package %s is not initialized", packageName);
}

// Returns NO_ERROR if this is the op of the library.
Udo_ErrorType_t checkName(const char* type) {
  if (type == nullptr) return refuse(UDO_INVALID_ARGUMENT, "package %s was asked for an op without a name", packageName);
  if (std::strcmp(type, theOp->name) == 0) return UDO_NO_ERROR;
  return refuse(UDO_WRONG_OPERATION, "package %s has no op `%s` in this library, which is %s's", packageName, type,
                theOp->name);
}

// --- tensors ---------------------------------------------------------------------------------------------------------

// The DSP may have added leading ones to ranks below 4.
bool isRank(const Udo_TensorParam_t& tensor, List<std::uint32_t> ranks) {
  if (ranks.count == 0) return true;
  std::uint32_t ones = 0;
  while (ones < tensor.tensorRank && tensor.currDimensions[ones] == 1) ++ones;
  for (const std::uint32_t rank : ranks) {
    if (tensor.tensorRank == rank) return true;
    if (tensor.tensorRank > rank && tensor.tensorRank - rank <= ones) return true;
  }
  return false;
}

Udo_ErrorType_t checkTensor(const char* role, const TensorSpec& spec, const Udo_TensorParam_t& tensor) {
  if (tensor.layout == UDO_LAYOUT_NULL) {
    if (!spec.mandatory) return UDO_NO_ERROR;
    return refuse(UDO_INVALID_ARGUMENT, "%s `%s` is mandatory, but it was left out", role, spec.name);
  }
  if (tensor.currDimensions == nullptr || tensor.tensorData == nullptr) {
    return refuse(UDO_INVALID_ARGUMENT, "%s `%s` has no data", role, spec.name);
  }
  if (!isRank(tensor, spec.ranks)) {
    return refuse(UDO_WRONG_NUM_OF_DIMENSIONS, "%s `%s` has rank %u, which the config does not allow", role, spec.name,
                  static_cast<unsigned>(tensor.tensorRank));
  }
  return UDO_NO_ERROR;
}

Udo_ErrorType_t checkInputs(const Operation& operation) {
  for (std::uint32_t i = 0; i < operation.inputCount; ++i) {
    const TensorSpec& spec = theOp->inputs.items[i];
    const Udo_TensorParam_t& tensor = operation.inputs[i];
    const Udo_ErrorType_t fault = checkTensor("input", spec, tensor);
    if (fault != UDO_NO_ERROR) return fault;
    if (tensor.layout != UDO_LAYOUT_NULL && !isOneOf(tensor.dataType, spec.types)) {
      return refuse(UDO_INVALID_ARGUMENT, "input `%s` is of another data type (0x%x)", spec.name,
                    static_cast<unsigned>(tensor.dataType));
    }
    if (spec.only != nullptr && tensor.layout != UDO_LAYOUT_NULL && !isDefault(*spec.only, tensor, spec.types)) {
      return refuse(UDO_INVALID_ARGUMENT, "input `%s` is not its default, and no other value is supported", spec.name);
    }
  }
  return UDO_NO_ERROR;
}

// Sets the size and the type of each output, which the DSP requires.
Udo_ErrorType_t openOutputs(const Operation& operation) {
  for (std::uint32_t i = 0; i < operation.outputCount; ++i) {
    const TensorSpec& spec = theOp->outputs.items[i];
    Udo_TensorParam_t& tensor = operation.outputs[i];
    if (tensor.layout != UDO_LAYOUT_NULL && tensor.maxDimensions != nullptr && tensor.currDimensions != nullptr) {
      for (std::uint32_t axis = 0; axis < tensor.tensorRank; ++axis) {
        tensor.currDimensions[axis] = tensor.maxDimensions[axis];
      }
    }
    const Udo_ErrorType_t fault = checkTensor("output", spec, tensor);
    if (fault != UDO_NO_ERROR) return fault;
    if (tensor.layout == UDO_LAYOUT_NULL) continue;
    tensor.dataType = theOp->outputKinds[i] == UDO_QUANTIZATION_TF ? UDO_DATATYPE_FIXED_8 : UDO_DATATYPE_FLOAT_32;
    const std::uint32_t bytes = bytesOf(tensor, tensor.currDimensions);
    if (dspFunctions->udoSetOutputTensorSize(operation.infrastructure, i, bytes) != 0) {
      return refuse(UDO_UNSUPPORTED_FEATURE, "the DSP has no memory for %u bytes of output `%s`",
                    static_cast<unsigned>(bytes), spec.name);
    }
  }
  return UDO_NO_ERROR;
}

bool isNumber(std::uint32_t count, List<TensorSpec> specs) {
  return count >= fewestOf(specs) && count <= specs.count;
}

Dsp dspOf(const Operation& operation) {
  return Dsp(*dspFunctions, theOp->name, operation.infrastructure, operation.outputs, operation.outputCount);
}

// --- what the DSP calls ----------------------------------------------------------------------------------------------

Udo_ErrorType_t createOpFactory(Udo_CoreType_t core, void*, Udo_String_t type, std::uint32_t count, Udo_Param_t* params,
                                Udo_OpFactory_t* factory) {
  if (dspFunctions == nullptr) return notInitialized();
  const Running running(theOp->name);
  if (factory == nullptr) return refuse(UDO_INVALID_ARGUMENT, "the pointer for its factory is NULL");
  if (core == UDO_CORETYPE_CPU || core == UDO_CORETYPE_GPU) {
    return refuse(UDO_WRONG_CORE, "is for the DSP (asked for core type %u)", static_cast<unsigned>(core));
  }
  Udo_ErrorType_t fault = checkName(type);
  if (fault == UDO_NO_ERROR) fault = checkParams(theOp->params, count, params);
  if (fault != UDO_NO_ERROR) return fault;
  Factory* const made = copyParams(*dspFunctions, count, params);
  if (made == nullptr) return refuse(UDO_MEM_ALLOC_ERROR, "out of memory for its parameters");
  *factory = reinterpret_cast<Udo_OpFactory_t>(made);
  return UDO_NO_ERROR;
}

Udo_ErrorType_t createOperation(Udo_OpFactory_t factory, void* infrastructure, std::uint32_t inputCount,
                                Udo_TensorParam_t* inputs, std::uint32_t outputCount, Udo_TensorParam_t* outputs,
                                Udo_Operation_t* made) {
  if (dspFunctions == nullptr) return notInitialized();
  const Running running(theOp->name);
  if (factory == nullptr || made == nullptr) return refuse(UDO_INVALID_ARGUMENT, "its factory, or the pointer for the operation, is NULL");
  if (!isNumber(inputCount, theOp->inputs)) {
    return refuse(UDO_WRONG_NUM_OF_INPUTS, "has %u inputs; it must have %u", static_cast<unsigned>(inputCount),
                  static_cast<unsigned>(theOp->inputs.count));
  }
  if (!isNumber(outputCount, theOp->outputs)) {
    return refuse(UDO_WRONG_NUM_OF_OUTPUTS, "has %u outputs; it must have %u", static_cast<unsigned>(outputCount),
                  static_cast<unsigned>(theOp->outputs.count));
  }
  if ((inputs == nullptr && inputCount != 0) || (outputs == nullptr && outputCount != 0)) {
    return refuse(UDO_INVALID_ARGUMENT, "the array of its tensors is NULL");
  }
  auto* const operation = static_cast<Operation*>(dspFunctions->udoMalloc(sizeof(Operation)));
  if (operation == nullptr) return refuse(UDO_MEM_ALLOC_ERROR, "out of memory");
  *operation = {reinterpret_cast<const Factory*>(factory), infrastructure, inputCount, inputs, outputCount, outputs,
                nullptr, 0};
  const Status status = kernel.create(*operation, *dspFunctions);
  if (status != ok) {
    dspFunctions->udoFree(operation);
    return codeOf(status);
  }
  *made = reinterpret_cast<Udo_Operation_t>(operation);
  return UDO_NO_ERROR;
}

Udo_ErrorType_t executeOp(Udo_Operation_t given, bool blocking, const std::uint32_t id, Udo_ExternalNotify_t notify) {
  if (dspFunctions == nullptr) return notInitialized();
  const Running running(theOp->name);
  if (given == nullptr) return refuse(UDO_INVALID_ARGUMENT, "the operation to execute is NULL");
  Operation& operation = *reinterpret_cast<Operation*>(given);
  Udo_ErrorType_t fault = checkInputs(operation);
  if (fault == UDO_NO_ERROR) fault = openOutputs(operation);
  if (fault != UDO_NO_ERROR) return fault;
  Dsp dsp = dspOf(operation);
  ++*theOp->executions;
  const Status status = kernel.execute(operation, dsp);
  // The DSP does not execute in the background; a client that requests a notification gets one.
  if (status == ok && !blocking && notify != nullptr) return notify(id);
  return codeOf(status);
}

Udo_ErrorType_t releaseOp(Udo_Operation_t given) {
  if (given == nullptr) return UDO_NO_ERROR;
  if (dspFunctions == nullptr) return notInitialized();
  const Running running(theOp->name);
  auto* const operation = reinterpret_cast<Operation*>(given);
  kernel.release(*operation, *dspFunctions);
  dspFunctions->udoFree(operation);
  return UDO_NO_ERROR;
}

Udo_ErrorType_t releaseOpFactory(Udo_OpFactory_t factory) {
  if (factory == nullptr) return UDO_NO_ERROR;
  if (dspFunctions == nullptr) return notInitialized();
  dspFunctions->udoFree(factory);
  return UDO_NO_ERROR;
}

Udo_ErrorType_t validateOp(Udo_String_t type, std::uint32_t count, const Udo_Param_t* params) {
  if (theOp == nullptr) return UDO_UNSUPPORTED_FEATURE;
  const Running running(theOp->name);
  const Udo_ErrorType_t fault = checkName(type);
  return fault == UDO_NO_ERROR ? checkParams(theOp->params, count, params) : fault;
}

Udo_ErrorType_t queryOp(Udo_String_t type, std::uint32_t, const Udo_Param_t*, std::uint32_t* inputs,
                        Udo_QuantizationType_t** inputTypes, Udo_HexNNTensorLayout_t** inputLayouts,
                        std::uint32_t* outputs, Udo_QuantizationType_t** outputTypes,
                        Udo_HexNNTensorLayout_t** outputLayouts) {
  if (theOp == nullptr) return UDO_UNSUPPORTED_FEATURE;
  const Running running(theOp->name);
  if (inputs == nullptr || inputTypes == nullptr || inputLayouts == nullptr || outputs == nullptr ||
      outputTypes == nullptr || outputLayouts == nullptr) {
    return refuse(UDO_INVALID_ARGUMENT, "a pointer for its result is NULL");
  }
  const Udo_ErrorType_t fault = checkName(type);
  if (fault != UDO_NO_ERROR) return fault;
  *inputs = static_cast<std::uint32_t>(theOp->inputs.count);
  *inputTypes = theOp->inputKinds;
  *inputLayouts = nullptr;  // all plain
  *outputs = static_cast<std::uint32_t>(theOp->outputs.count);
  *outputTypes = theOp->outputKinds;
  *outputLayouts = nullptr;
  return UDO_NO_ERROR;
}

// --- the op package interface ----------------------------------------------------------------------------------------

QnnDspOpPackage_OperationInfo_t operationInfo;
const QnnOpPackage_OperationInfo_t operationInfos[] = {&operationInfo};
const char* operationNames[] = {nullptr};

Qnn_ErrorHandle_t initialize(QnnOpPackage_GlobalInfrastructure_t infrastructure) {
  if (infrastructure == nullptr || infrastructure->dspGlobalInfra == nullptr) {
    return QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT;
  }
  if (infrastructure->dspGlobalInfra->infraType != UDO_INFRA_HEXNN_V2) return QNN_OP_PACKAGE_ERROR_UNSUPPORTED_FEATURE;
  const OpSpec& spec = *theOp;
  operationInfo = {const_cast<char*>(spec.name),
                   static_cast<std::uint32_t>(spec.params.count),
                   static_cast<std::uint32_t>(spec.inputs.count),
                   static_cast<std::uint32_t>(spec.outputs.count),
                   createOpFactory,
                   createOperation,
                   executeOp,
                   releaseOp,
                   releaseOpFactory,
                   validateOp,
                   queryOp};
  operationNames[0] = spec.name;
  dspFunctions = &infrastructure->dspGlobalInfra->hexNNv2Infra;  // of the last call; all clients pass the DSP's
  return executions.begin();
}

Qnn_ErrorHandle_t terminate() {
  const Status status = executions.end();
  if (!executions.isUsed()) dspFunctions = nullptr;
  return status;
}

Qnn_ErrorHandle_t getInfo(const QnnOpPackage_Info_t** info) {
  if (dspFunctions == nullptr) return QNN_OP_PACKAGE_ERROR_LIBRARY_NOT_INITIALIZED;
  if (info == nullptr) return QNN_OP_PACKAGE_ERROR_INVALID_INFO;
  static QnnOpPackage_Info_t packageInfo;
  packageInfo = {};
  packageInfo.packageName = packageName;
  packageInfo.operationNames = operationNames;
  packageInfo.operationInfo = operationInfos;
  packageInfo.numOperations = 1;
  *info = &packageInfo;
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t validateOpConfig(Qnn_OpConfig_t config) {
  if (dspFunctions == nullptr) return QNN_OP_PACKAGE_ERROR_LIBRARY_NOT_INITIALIZED;
  if (config.version != QNN_OPCONFIG_VERSION_1 || config.v1.packageName == nullptr ||
      std::strcmp(config.v1.packageName, packageName) != 0 || checkName(config.v1.typeName) != UDO_NO_ERROR) {
    return QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE;
  }
  const Running running(theOp->name);
  const OpSpec& spec = *theOp;
  if (!isNumber(config.v1.numOfInputs, spec.inputs) || !isNumber(config.v1.numOfOutputs, spec.outputs) ||
      config.v1.numOfParams > spec.params.count) {
    error("has %u inputs, %u outputs and %u parameters; it must have %u, %u and %u",
          static_cast<unsigned>(config.v1.numOfInputs), static_cast<unsigned>(config.v1.numOfOutputs),
          static_cast<unsigned>(config.v1.numOfParams), static_cast<unsigned>(spec.inputs.count),
          static_cast<unsigned>(spec.outputs.count), static_cast<unsigned>(spec.params.count));
    return QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE;
  }
  return QNN_SUCCESS;
}

// The DSP calls createOpFactory of operationInfo instead.
Qnn_ErrorHandle_t createOpImpl(QnnOpPackage_GraphInfrastructure_t, QnnOpPackage_Node_t, QnnOpPackage_OpImpl_t*) {
  return QNN_OP_PACKAGE_ERROR_UNSUPPORTED_FEATURE;
}

Qnn_ErrorHandle_t freeOpImpl(QnnOpPackage_OpImpl_t) { return QNN_OP_PACKAGE_ERROR_UNSUPPORTED_FEATURE; }

}  // namespace

void fillInterface(QnnOpPackage_Interface_t& interface, const char* package, const OpEntry& entry) {
  packageName = package;
  theOp = &entry;
  entry.describe(kernel);
  interface.interfaceVersion = {1, 4, 0};
  interface.v1_4 = {initialize, terminate,     getInfo,     validateOpConfig, createOpImpl,
                    freeOpImpl, logInitialize, logSetLevel, logTerminate};
}

std::uint64_t glue::fingerprint(const Operation& operation) {
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a, a word at a time
  const auto add = [&hash](std::uint32_t word) { hash = (hash ^ word) * 1099511628211u; };
  const auto addTensor = [&add](const Udo_TensorParam_t& tensor) {
    const bool isThere = tensor.layout != UDO_LAYOUT_NULL;
    const bool ranged = isThere && tensor.quantizeParams.quantizeType == UDO_QUANTIZATION_TF;
    const float range[2] = {ranged ? tensor.quantizeParams.TFParams.minValue : 0.0f,
                            ranged ? tensor.quantizeParams.TFParams.maxValue : 0.0f};
    std::uint32_t words[2];
    std::memcpy(words, range, sizeof words);
    add(words[0]);
    add(words[1]);
    for (std::uint32_t axis = 0; isThere && axis < tensor.tensorRank; ++axis) add(tensor.currDimensions[axis]);
  };
  for (std::uint32_t i = 0; i < operation.inputCount; ++i) addTensor(operation.inputs[i]);
  for (std::uint32_t i = 0; i < operation.outputCount; ++i) addTensor(operation.outputs[i]);
  return hash == 0 ? 1 : hash;
}

// --- what kernels use ------------------------------------------------------------------------------------------------

std::uint32_t Dsp::indexOf(const View& output) const {
  std::uint32_t index = 0;
  while (index < count_ && &outputs_[index] != output.raw()) ++index;
  return index;
}

Status Dsp::resize(const View& output, const std::uint32_t* dims, std::size_t rank) const {
  const std::uint32_t index = indexOf(output);
  if (index == count_) return error("only an output can be resized");
  Udo_TensorParam_t& tensor = outputs_[index];
  if (rank != tensor.tensorRank) {
    return error("output %u cannot be given another rank than %u", static_cast<unsigned>(index),
                 static_cast<unsigned>(tensor.tensorRank));
  }
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (dims[axis] > tensor.maxDimensions[axis]) {
      return error("output %u cannot be larger than %u along axis %u", static_cast<unsigned>(index),
                   static_cast<unsigned>(tensor.maxDimensions[axis]), static_cast<unsigned>(axis));
    }
  }
  for (std::size_t axis = 0; axis < rank; ++axis) tensor.currDimensions[axis] = dims[axis];
  const std::uint32_t bytes = bytesOf(tensor, dims);
  if (functions_.udoSetOutputTensorSize(operation_, index, bytes) != 0) {
    return error("the DSP has no memory for %u bytes of output %u", static_cast<unsigned>(bytes),
                 static_cast<unsigned>(index));
  }
  return ok;
}

Status Dsp::setRange(const View& output, float lowest, float highest) const {
  const std::uint32_t index = indexOf(output);
  if (index == count_) return error("only an output can be given a range");
  if (!(lowest < highest)) return error("the range of output %u is empty", static_cast<unsigned>(index));
  outputs_[index].quantizeParams.quantizeType = UDO_QUANTIZATION_TF;
  outputs_[index].quantizeParams.TFParams.minValue = lowest;
  outputs_[index].quantizeParams.TFParams.maxValue = highest;
  output.update();
  return ok;
}

}  // namespace udo
