// The one symbol of the library, capabilities, error texts, and unsupported calls.
#include <cstddef>
#include <map>

#include "calls.hpp"

namespace emulator {
namespace {

// Each call that no engine has, with the code that the public headers document for "not supported".
template <Qnn_ErrorHandle_t Code, class... Args>
Qnn_ErrorHandle_t fail(Args...) {
  return Code;
}

template <Qnn_ErrorHandle_t Code, class... Args>
void unsupported(Qnn_ErrorHandle_t (*&entry)(Args...)) {
  if (entry == nullptr) entry = fail<Code, Args...>;
}

Qnn_ErrorHandle_t propertyHasCapability(QnnProperty_Key_t key) {
  switch (key) {
    case QNN_PROPERTY_TENSOR_SUPPORT_DYNAMIC_DIMENSIONS:
      return identity.sizesPerCall ? QNN_PROPERTY_SUPPORTED : QNN_PROPERTY_NOT_SUPPORTED;
    case QNN_PROPERTY_GROUP_CORE:
    case QNN_PROPERTY_GROUP_BACKEND:
    case QNN_PROPERTY_BACKEND_SUPPORT_OP_PACKAGE:
    case QNN_PROPERTY_BACKEND_SUPPORT_COMPOSITION:
    case QNN_PROPERTY_GROUP_CONTEXT:
    case QNN_PROPERTY_CONTEXT_SUPPORT_CACHING:
    case QNN_PROPERTY_CONTEXT_SUPPORT_CONFIGURATION:
    case QNN_PROPERTY_CONTEXT_SUPPORT_VALIDATE_BINARY:
    case QNN_PROPERTY_GROUP_GRAPH:
    case QNN_PROPERTY_GRAPH_SUPPORT_CONFIG:
    case QNN_PROPERTY_GRAPH_SUPPORT_SIGNALS:
    case QNN_PROPERTY_GRAPH_SUPPORT_ASYNC_EXECUTION:
    case QNN_PROPERTY_GRAPH_SUPPORT_NULL_INPUTS:
    case QNN_PROPERTY_GRAPH_SUPPORT_FINALIZE_SIGNAL:
    case QNN_PROPERTY_GRAPH_SUPPORT_EXECUTE_SIGNAL:
    case QNN_PROPERTY_GRAPH_SUPPORT_EXECUTE:
    case QNN_PROPERTY_GRAPH_SUPPORT_ONLINE_PREPARE:
    case QNN_PROPERTY_GROUP_OP_PACKAGE:
    case QNN_PROPERTY_OP_PACKAGE_SUPPORTS_VALIDATION:
    case QNN_PROPERTY_OP_PACKAGE_SUPPORTS_OP_IMPLS:
    case QNN_PROPERTY_GROUP_TENSOR:
    case QNN_PROPERTY_TENSOR_SUPPORT_MEMHANDLE_TYPE:
    case QNN_PROPERTY_GROUP_ERROR:
    case QNN_PROPERTY_GROUP_MEMORY:
    case QNN_PROPERTY_MEMORY_SUPPORT_MEM_TYPE_ION:
    case QNN_PROPERTY_MEMORY_SUPPORT_MEM_TYPE_CUSTOM:
    case QNN_PROPERTY_MEMORY_SUPPORT_MEM_TYPE_DMA_BUF:
    case QNN_PROPERTY_GROUP_SIGNAL:
    case QNN_PROPERTY_SIGNAL_SUPPORT_ABORT:
    case QNN_PROPERTY_SIGNAL_SUPPORT_TIMEOUT:
    case QNN_PROPERTY_GROUP_LOG:
    case QNN_PROPERTY_LOG_SUPPORTS_DEFAULT_STREAM:
    case QNN_PROPERTY_GROUP_PROFILE:
    case QNN_PROPERTY_PROFILE_SUPPORTS_EXTENDED_EVENT:
    case QNN_PROPERTY_GROUP_DEVICE: return QNN_PROPERTY_SUPPORTED;
    default: return key < QNN_PROPERTY_GROUP_CUSTOM ? QNN_PROPERTY_NOT_SUPPORTED : QNN_PROPERTY_ERROR_UNKNOWN_KEY;
  }
}

Qnn_ErrorHandle_t errorGetMessage(Qnn_ErrorHandle_t error, const char** text) {
  if (text == nullptr) return QNN_ERROR_INVALID_ARGUMENT;
  static const std::map<Qnn_ErrorHandle_t, const char*> texts = {
      {QNN_SUCCESS, "no error"},
      {QNN_COMMON_ERROR_NOT_SUPPORTED, "not supported by this backend"},
      {QNN_COMMON_ERROR_MEM_ALLOC, "out of memory"},
      {QNN_COMMON_ERROR_GENERAL, "an error of the backend"},
      {QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE, "the op package does not accept the node"},
      {QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND, "no such op package"},
      {QNN_BACKEND_ERROR_OP_PACKAGE_IF_PROVIDER_NOT_FOUND, "no such interface provider"},
      {QNN_BACKEND_ERROR_OP_PACKAGE_REGISTRATION_FAILED, "the op package could not be registered"},
      {QNN_BACKEND_ERROR_OP_PACKAGE_UNSUPPORTED_VERSION, "the op package speaks another version of the interface"},
      {QNN_BACKEND_ERROR_INVALID_HANDLE, "no such backend"},
      {QNN_CONTEXT_ERROR_INVALID_HANDLE, "no such context, backend or device"},
      {QNN_CONTEXT_ERROR_NOT_FINALIZED, "a graph of the context is not finalized"},
      {QNN_CONTEXT_ERROR_CREATE_FROM_BINARY, "the context binary cannot be restored"},
      {QNN_GRAPH_ERROR_INVALID_HANDLE, "no such graph or context"},
      {QNN_GRAPH_ERROR_INVALID_TENSOR, "a tensor that the graph does not have, or a buffer that is too small"},
      {QNN_GRAPH_ERROR_FINALIZE_FAILED, "the graph could not be finalized"},
      {QNN_GRAPH_ERROR_GRAPH_NOT_FINALIZED, "the graph is not finalized"},
      {QNN_GRAPH_ERROR_GRAPH_FINALIZED, "the graph is finalized already"},
      {QNN_GRAPH_ERROR_ABORTED, "ended by a signal"},
      {QNN_GRAPH_ERROR_TIMED_OUT, "the time of the signal is over"},
      {QNN_GRAPH_ERROR_SIGNAL_IN_USE, "the signal belongs to another call"},
      {QNN_GRAPH_ERROR_DISABLED, "the graph was not enabled when its context was restored"},
      {QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED, "it is in use"},
      {QNN_MEM_ERROR_INVALID_ARGUMENT, "a memory descriptor that is none"},
      {QNN_MEM_ERROR_INVALID_HANDLE, "no such memory or context"},
      {QNN_MEM_ERROR_ALREADY_REGISTERED, "the memory is registered already"},
      {QNN_MEM_ERROR_MAPPING, "the memory cannot be mapped"},
      {QNN_MEM_ERROR_INVALID_SHAPE, "the memory has not this shape"},
      {QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE, "no such type of memory"},
      {QNN_TENSOR_ERROR_ALREADY_EXISTS, "there is a tensor of this name"},
  };
  const auto found = texts.find(error);
  if (found == texts.end()) return QNN_ERROR_INVALID_ERROR_HANDLE;
  *text = found->second;
  return QNN_SUCCESS;
}

/// Later versions of the table only append to it: a client that looks there finds "not supported" as well.
struct Table {
  QnnInterface_t known;
  Qnn_ErrorHandle_t (*later[8])();
};

const QnnInterface_t& interface() {
  static const Table made = [] {
    Table table = {};
    for (auto& each : table.later) unsupported<QNN_COMMON_ERROR_NOT_SUPPORTED>(each);
    QnnInterface_t& filled = table.known;
    filled.backendId = identity.backendId;
    filled.providerName = identity.provider;
    filled.apiVersion = {coreApi, identity.version};
    fillBackend(filled.v2);
    fillContext(filled.v2);
    fillGraph(filled.v2);
    fillMem(filled.v2);
    fillProfile(filled.v2);
    fillSignal(filled.v2);
    filled.v2.propertyHasCapability = propertyHasCapability;
    filled.v2.errorGetMessage = errorGetMessage;
    fillUnsupported(filled.v2);
    if (identity.specialize != nullptr) identity.specialize(filled.v2);
    return table;
  }();
  return made.known;
}

}  // namespace

void fillUnsupported(QnnInterface_ImplementationV2_t& table) {
  unsupported<QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE>(table.graphCreateSubgraph);
  unsupported<QNN_TENSOR_ERROR_UNSUPPORTED_FEATURE>(table.tensorCreateContextTensor);
  unsupported<QNN_COMMON_ERROR_NOT_SUPPORTED>(table.errorGetVerboseMessage);
  unsupported<QNN_COMMON_ERROR_NOT_SUPPORTED>(table.errorFreeVerboseMessage);
  unsupported<QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE>(table.graphPrepareExecutionEnvironment);
  unsupported<QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE>(table.graphReleaseExecutionEnvironment);
  unsupported<QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE>(table.contextCreateFromBinaryWithSignal);
  unsupported<QNN_TENSOR_ERROR_UNSUPPORTED_FEATURE>(table.tensorUpdateGraphTensors);
  unsupported<QNN_TENSOR_ERROR_UNSUPPORTED_FEATURE>(table.tensorUpdateContextTensors);
  unsupported<QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE>(table.contextGetBinarySectionSize);
  unsupported<QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE>(table.contextGetBinarySection);
  unsupported<QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE>(table.contextApplyBinarySection);
  unsupported<QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE>(table.contextGetIncrementalBinary);
  unsupported<QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE>(table.contextReleaseIncrementalBinary);
  unsupported<QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE>(table.contextFinalize);
  unsupported<QNN_COMMON_ERROR_NOT_SUPPORTED>(table.globalConfigSet);
  unsupported<QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE>(table.contextCreateFromBinaryWithCallback);
  unsupported<QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE>(table.contextGetBinarySectionUpdate);
  unsupported<QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE>(table.contextFreeBinarySectionUpdate);
}

}  // namespace emulator

extern "C" __attribute__((visibility("default"))) Qnn_ErrorHandle_t QnnInterface_getProviders(
    const QnnInterface_t*** providers, std::uint32_t* count) {
  if (providers == nullptr || count == nullptr) return QNN_INTERFACE_ERROR_INVALID_PARAMETER;
  static const QnnInterface_t* all[] = {&emulator::interface()};
  *providers = all;
  *count = 1;
  return QNN_SUCCESS;
}
