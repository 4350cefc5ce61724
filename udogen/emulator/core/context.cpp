// Contexts, stored and restored, and the graphs in them.
#include <cstring>

#include "calls.hpp"

namespace emulator {
namespace {

Qnn_ErrorHandle_t checkOwners(Qnn_BackendHandle_t backend, Qnn_DeviceHandle_t device, std::shared_ptr<Backend>& found) {
  found = objects().find<Backend>(backend);
  if (found == nullptr) return QNN_CONTEXT_ERROR_INVALID_HANDLE;
  if (device != nullptr && objects().find<Device>(device) == nullptr) return QNN_CONTEXT_ERROR_INVALID_HANDLE;
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t checkConfigs(const QnnContext_Config_t** config) {
  for (; config != nullptr && *config != nullptr; ++config) {
    switch ((*config)->option) {
      case QNN_CONTEXT_CONFIG_OPTION_CUSTOM:
      case QNN_CONTEXT_CONFIG_OPTION_PRIORITY:
      case QNN_CONTEXT_CONFIG_OPTION_ERROR_REPORTING:
      case QNN_CONTEXT_CONFIG_OPTION_OEM_STRING:
      case QNN_CONTEXT_CONFIG_PERSISTENT_BINARY:
      case QNN_CONTEXT_CONFIG_BINARY_COMPATIBILITY:
      case QNN_CONTEXT_CONFIG_ASYNC_EXECUTION_QUEUE_DEPTH:
      case QNN_CONTEXT_CONFIG_ENABLE_GRAPHS: break;
      default: return QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE;
    }
  }
  return QNN_SUCCESS;
}

/// What a new context keeps of its configs.
void apply(const QnnContext_Config_t** config, Context& context) {
  for (; config != nullptr && *config != nullptr; ++config) {
    if ((*config)->option == QNN_CONTEXT_CONFIG_ASYNC_EXECUTION_QUEUE_DEPTH) {
      context.queue.setDepth((*config)->asyncExeQueueDepth.depth);
    } else if ((*config)->option == QNN_CONTEXT_CONFIG_ENABLE_GRAPHS) {
      for (auto each = (*config)->enableGraphs; each != nullptr && *each != nullptr; ++each) {
        context.enabled.emplace_back(*each);
      }
    }
  }
}

/// Releases everything; what runs ends first, for it holds what it needs.
void release(Context& context) {
  context.queue.finish();
  std::map<std::string, std::pair<std::shared_ptr<Graph>, void*>> graphs;
  std::map<void*, std::shared_ptr<Mem>> memory;
  {
    const std::lock_guard<std::mutex> lock(context.mutex);
    graphs.swap(context.graphs);
    memory.swap(context.memory);
  }
  for (const auto& [handle, _] : memory) objects().take<Mem>(handle);
  for (const auto& [_, entry] : graphs) objects().take<Graph>(entry.second);
}

Qnn_ErrorHandle_t contextCreate(Qnn_BackendHandle_t handle, Qnn_DeviceHandle_t device,
                                const QnnContext_Config_t** config, Qnn_ContextHandle_t* made) {
  if (made == nullptr) return QNN_CONTEXT_ERROR_INVALID_ARGUMENT;
  return guarded([&]() -> Qnn_ErrorHandle_t {
    std::shared_ptr<Backend> backend;
    Qnn_ErrorHandle_t code = checkOwners(handle, device, backend);
    if (code == QNN_SUCCESS) code = checkConfigs(config);
    if (code != QNN_SUCCESS) return code;
    auto context = std::make_shared<Context>(std::move(backend));
    apply(config, *context);
    *made = objects().add(std::move(context));
    return code;
  });
}

Qnn_ErrorHandle_t contextSetConfig(Qnn_ContextHandle_t handle, const QnnContext_Config_t** config) {
  if (objects().find<Context>(handle) == nullptr) return QNN_CONTEXT_ERROR_INVALID_HANDLE;
  if (config == nullptr) return QNN_CONTEXT_ERROR_INVALID_ARGUMENT;
  return checkConfigs(config);
}

Qnn_ErrorHandle_t store(Qnn_ContextHandle_t handle, std::vector<unsigned char>& binary) {
  const auto context = objects().find<Context>(handle);
  if (context == nullptr) return QNN_CONTEXT_ERROR_INVALID_HANDLE;
  const std::lock_guard<std::mutex> lock(context->mutex);
  for (const auto& [_, entry] : context->graphs) {
    const std::lock_guard<std::mutex> busy(entry.first->mutex);
    if (entry.first->executable == nullptr) return QNN_CONTEXT_ERROR_NOT_FINALIZED;
  }
  if (context->graphs.empty()) return QNN_CONTEXT_ERROR_NOT_FINALIZED;
  binary = stored(*context);
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t contextGetBinarySize(Qnn_ContextHandle_t handle, Qnn_ContextBinarySize_t* size) {
  if (size == nullptr) return QNN_CONTEXT_ERROR_INVALID_ARGUMENT;
  return guarded([&]() -> Qnn_ErrorHandle_t {
    std::vector<unsigned char> binary;
    const Qnn_ErrorHandle_t code = store(handle, binary);
    if (code == QNN_SUCCESS) *size = binary.size();
    return code;
  });
}

Qnn_ErrorHandle_t contextGetBinary(Qnn_ContextHandle_t handle, void* into, Qnn_ContextBinarySize_t size,
                                   Qnn_ContextBinarySize_t* written) {
  if (into == nullptr || written == nullptr) return QNN_CONTEXT_ERROR_INVALID_ARGUMENT;
  return guarded([&]() -> Qnn_ErrorHandle_t {
    std::vector<unsigned char> binary;
    const Qnn_ErrorHandle_t code = store(handle, binary);
    if (code != QNN_SUCCESS) return code;
    if (size < binary.size()) return QNN_CONTEXT_ERROR_INVALID_ARGUMENT;
    std::memcpy(into, binary.data(), binary.size());
    *written = binary.size();
    return QNN_SUCCESS;
  });
}

Qnn_ErrorHandle_t contextCreateFromBinary(Qnn_BackendHandle_t handle, Qnn_DeviceHandle_t device,
                                          const QnnContext_Config_t** config, const void* binary,
                                          Qnn_ContextBinarySize_t size, Qnn_ContextHandle_t* made,
                                          Qnn_ProfileHandle_t profile) {
  if (binary == nullptr || made == nullptr || size == 0) return QNN_CONTEXT_ERROR_INVALID_ARGUMENT;
  return guarded([&]() -> Qnn_ErrorHandle_t {
    std::shared_ptr<Backend> backend;
    std::shared_ptr<Profile> measures;
    Qnn_ErrorHandle_t code = checkOwners(handle, device, backend);
    if (code == QNN_SUCCESS && !findProfile(profile, measures)) code = QNN_CONTEXT_ERROR_SET_PROFILE;
    if (code == QNN_SUCCESS) code = checkConfigs(config);
    if (code != QNN_SUCCESS) return code;
    const auto context = std::make_shared<Context>(std::move(backend));
    apply(config, *context);
    code = restore(binary, size, context);
    if (code == QNN_SUCCESS) {
      *made = objects().add(context);
    } else {
      release(*context);
    }
    return code;
  });
}

Qnn_ErrorHandle_t contextValidateBinary(Qnn_BackendHandle_t handle, Qnn_DeviceHandle_t device,
                                        const QnnContext_Config_t** config, const void* binary,
                                        Qnn_ContextBinarySize_t size) {
  if (binary == nullptr || size == 0) return QNN_CONTEXT_ERROR_INVALID_ARGUMENT;
  return guarded([&]() -> Qnn_ErrorHandle_t {
    std::shared_ptr<Backend> backend;
    Qnn_ErrorHandle_t code = checkOwners(handle, device, backend);
    if (code == QNN_SUCCESS) code = checkConfigs(config);
    return code == QNN_SUCCESS ? checkBinary(binary, size, backend->logger) : code;
  });
}

Qnn_ErrorHandle_t contextFree(Qnn_ContextHandle_t handle, Qnn_ProfileHandle_t profile) {
  return guarded([&]() -> Qnn_ErrorHandle_t {
    std::shared_ptr<Profile> measures;
    if (!findProfile(profile, measures)) return QNN_CONTEXT_ERROR_SET_PROFILE;
    const auto context = objects().take<Context>(handle);
    if (context == nullptr) return QNN_CONTEXT_ERROR_INVALID_HANDLE;
    release(*context);
    return QNN_SUCCESS;
  });
}

Qnn_ErrorHandle_t contextGetProperty(Qnn_ContextHandle_t handle, QnnContext_Property_t** properties) {
  return with<Context>(handle, QNN_CONTEXT_ERROR_INVALID_HANDLE, [&](const auto& context) -> Qnn_ErrorHandle_t {
    if (properties == nullptr) return QNN_CONTEXT_ERROR_INVALID_ARGUMENT;
    for (; *properties != nullptr; ++properties) {
      if ((*properties)->option != QNN_CONTEXT_PROPERTY_OPTION_CUSTOM) return QNN_CONTEXT_ERROR_INVALID_ARGUMENT;
      if ((*properties)->customProperty == nullptr) return QNN_CONTEXT_ERROR_INVALID_ARGUMENT;
      const Qnn_ErrorHandle_t code = context->backend->engine->property(*context, (*properties)->customProperty);
      if (code != QNN_SUCCESS) return code;
    }
    return QNN_SUCCESS;
  });
}

}  // namespace

void fillContext(QnnInterface_ImplementationV2_t& table) {
  table.contextCreate = contextCreate;
  table.contextSetConfig = contextSetConfig;
  table.contextGetBinarySize = contextGetBinarySize;
  table.contextGetBinary = contextGetBinary;
  table.contextCreateFromBinary = contextCreateFromBinary;
  table.contextValidateBinary = contextValidateBinary;
  table.contextFree = contextFree;
  table.contextGetProperty = contextGetProperty;
}

}  // namespace emulator
