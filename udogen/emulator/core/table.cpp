// The one symbol of the library, capabilities, and unsupported calls.
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
    case QNN_PROPERTY_GRAPH_SUPPORT_ASYNC_EXECUTION:
    case QNN_PROPERTY_GRAPH_SUPPORT_NULL_INPUTS:
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
    case QNN_PROPERTY_GROUP_LOG:
    case QNN_PROPERTY_LOG_SUPPORTS_DEFAULT_STREAM:
    case QNN_PROPERTY_GROUP_PROFILE:
    case QNN_PROPERTY_PROFILE_SUPPORTS_EXTENDED_EVENT:
    case QNN_PROPERTY_GROUP_DEVICE: return QNN_PROPERTY_SUPPORTED;
    default: return key < QNN_PROPERTY_GROUP_CUSTOM ? QNN_PROPERTY_NOT_SUPPORTED : QNN_PROPERTY_ERROR_UNKNOWN_KEY;
  }
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
    filled.v2.propertyHasCapability = propertyHasCapability;
    fillUnsupported(filled.v2);
    if (identity.specialize != nullptr) identity.specialize(filled.v2);
    return table;
  }();
  return made.known;
}

}  // namespace

void fillUnsupported(QnnInterface_ImplementationV2_t& table) {
  unsupported<QNN_BACKEND_ERROR_NOT_SUPPORTED>(table.backendSetConfig);
  unsupported<QNN_BACKEND_ERROR_NOT_SUPPORTED>(table.backendGetProperty);
  unsupported<QNN_DEVICE_ERROR_UNSUPPORTED_FEATURE>(table.deviceGetInfrastructure);
  unsupported<QNN_DEVICE_ERROR_UNSUPPORTED_FEATURE>(table.deviceSetConfig);
  unsupported<QNN_DEVICE_ERROR_UNSUPPORTED_FEATURE>(table.deviceGetInfo);
  unsupported<QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE>(table.graphGetProperty);
  unsupported<QNN_PROFILE_ERROR_UNSUPPORTED>(table.profileSetConfig);
  unsupported<QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE>(table.graphCreateSubgraph);
  unsupported<QNN_TENSOR_ERROR_UNSUPPORTED_FEATURE>(table.tensorCreateContextTensor);
  unsupported<QNN_SIGNAL_ERROR_UNSUPPORTED>(table.signalCreate);
  unsupported<QNN_SIGNAL_ERROR_UNSUPPORTED>(table.signalSetConfig);
  unsupported<QNN_SIGNAL_ERROR_UNSUPPORTED>(table.signalTrigger);
  unsupported<QNN_SIGNAL_ERROR_UNSUPPORTED>(table.signalFree);
  unsupported<QNN_COMMON_ERROR_NOT_SUPPORTED>(table.errorGetMessage);
  unsupported<QNN_COMMON_ERROR_NOT_SUPPORTED>(table.errorGetVerboseMessage);
  unsupported<QNN_COMMON_ERROR_NOT_SUPPORTED>(table.errorFreeVerboseMessage);
  unsupported<QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE>(table.graphPrepareExecutionEnvironment);
  unsupported<QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE>(table.graphReleaseExecutionEnvironment);
  unsupported<QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE>(table.contextCreateFromBinaryListAsync);
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
