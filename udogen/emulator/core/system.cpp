// Our libQnnSystem.so: lists what is in a context binary of the emulator.
#include "System/QnnSystemInterface.h"

#include "calls.hpp"

namespace emulator {
namespace {

struct SystemContext : Object {
  static constexpr Kind itsKind = Kind::systemContext;
  SystemContext() : Object(itsKind) {}

  std::mutex mutex;
  std::vector<Described> graphs;
  std::vector<QnnSystemContext_GraphInfo_t> rows;
  QnnSystemContext_BinaryInfo_t info = {};
};

Qnn_ErrorHandle_t create(QnnSystemContext_Handle_t* made) {
  if (made == nullptr) return QNN_SYSTEM_CONTEXT_ERROR_INVALID_ARGUMENT;
  return guarded([&] { return *made = objects().add(std::make_shared<SystemContext>()), QNN_SUCCESS; });
}

Qnn_ErrorHandle_t getMetaData(QnnSystemContext_Handle_t handle, const void* binary, std::uint64_t size,
                              const QnnSystemContext_BinaryInfo_t** info) {
  if (binary == nullptr || info == nullptr) return QNN_SYSTEM_CONTEXT_ERROR_INVALID_ARGUMENT;
  return with<SystemContext>(handle, QNN_SYSTEM_CONTEXT_ERROR_INVALID_HANDLE, [&](const auto& context) -> Qnn_ErrorHandle_t {
    const std::lock_guard<std::mutex> lock(context->mutex);
    std::vector<Described> graphs;
    if (describe(binary, size, graphs) != QNN_SUCCESS) return QNN_SYSTEM_CONTEXT_ERROR_MALFORMED_BINARY;
    context->graphs = std::move(graphs);
    context->rows.clear();
    for (Described& graph : context->graphs) {
      QnnSystemContext_GraphInfo_t row = {};
      row.version = QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_1;
      row.graphInfoV1 = {graph.name.c_str(), static_cast<std::uint32_t>(graph.inputs.size()), graph.inputs.data(),
                         static_cast<std::uint32_t>(graph.outputs.size()), graph.outputs.data()};
      context->rows.push_back(row);
    }
    QnnSystemContext_BinaryInfoV1_t& body = context->info.contextBinaryInfoV1;
    context->info.version = QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_1;
    body.backendId = identity.backendId;
    body.buildId = "udogen's emulator";
    body.coreApiVersion = coreApi;
    body.backendApiVersion = identity.version;
    body.socVersion = "";
    body.contextBlobSize = size;
    body.numGraphs = static_cast<std::uint32_t>(context->rows.size());
    body.graphs = context->rows.data();
    *info = &context->info;
    return QNN_SUCCESS;
  });
}

Qnn_ErrorHandle_t getBinaryInfo(QnnSystemContext_Handle_t handle, void* binary, std::uint64_t size,
                                const QnnSystemContext_BinaryInfo_t** info, Qnn_ContextBinarySize_t* infoSize) {
  if (infoSize == nullptr) return QNN_SYSTEM_CONTEXT_ERROR_INVALID_ARGUMENT;
  *infoSize = sizeof(QnnSystemContext_BinaryInfo_t);
  return getMetaData(handle, binary, size, info);
}

Qnn_ErrorHandle_t release(QnnSystemContext_Handle_t handle) {
  return guarded([&]() -> Qnn_ErrorHandle_t {
    return objects().take<SystemContext>(handle) == nullptr ? QNN_SYSTEM_CONTEXT_ERROR_INVALID_HANDLE : QNN_SUCCESS;
  });
}

}  // namespace
}  // namespace emulator

extern "C" __attribute__((visibility("default"))) Qnn_ErrorHandle_t QnnSystemInterface_getProviders(
    const QnnSystemInterface_t*** providers, std::uint32_t* count) {
  if (providers == nullptr || count == nullptr) return QNN_SYSTEM_CONTEXT_ERROR_INVALID_ARGUMENT;
  static const QnnSystemInterface_t made = [] {
    QnnSystemInterface_t filled = {};
    filled.providerName = "SYSTEM_UDOGEN_EMULATOR";
    filled.systemApiVersion = {1, 1, 0};
    filled.v1.systemContextCreate = emulator::create;
    filled.v1.systemContextGetBinaryInfo = emulator::getBinaryInfo;
    filled.v1.systemContextGetMetaData = emulator::getMetaData;
    filled.v1.systemContextFree = emulator::release;
    return filled;
  }();
  static const QnnSystemInterface_t* all[] = {&made};
  *providers = all;
  *count = 1;
  return QNN_SUCCESS;
}
