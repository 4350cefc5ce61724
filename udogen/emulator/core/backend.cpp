// Logs, backends, devices.
#include "calls.hpp"

namespace emulator {
namespace {

// --- logs -----------------------------------------------------------------------------------------------------

Qnn_ErrorHandle_t logCreate(QnnLog_Callback_t callback, QnnLog_Level_t level, Qnn_LogHandle_t* made) {
  if (made == nullptr || level < QNN_LOG_LEVEL_ERROR) return QNN_LOG_ERROR_INVALID_ARGUMENT;
  return guarded([&] { return *made = objects().add(std::make_shared<Log>(callback, level)), QNN_SUCCESS; });
}

Qnn_ErrorHandle_t logSetLogLevel(Qnn_LogHandle_t handle, QnnLog_Level_t level) {
  const auto log = objects().find<Log>(handle);
  if (log == nullptr) return QNN_LOG_ERROR_INVALID_HANDLE;
  if (level < QNN_LOG_LEVEL_ERROR) return QNN_LOG_ERROR_INVALID_ARGUMENT;
  log->level = level;
  return guarded([&]() -> Qnn_ErrorHandle_t {
    for (const std::shared_ptr<Backend>& backend : objects().all<Backend>()) {
      if (backend->logger.log() == log) backend->setPackagesLevel(level);
    }
    return QNN_SUCCESS;
  });
}

Qnn_ErrorHandle_t logFree(Qnn_LogHandle_t handle) {
  return objects().take<Log>(handle) == nullptr ? QNN_LOG_ERROR_INVALID_HANDLE : QNN_SUCCESS;
}

// --- backends -------------------------------------------------------------------------------------------------

Qnn_ErrorHandle_t backendCreate(Qnn_LogHandle_t log, const QnnBackend_Config_t** config, Qnn_BackendHandle_t* made) {
  if (made == nullptr) return QNN_BACKEND_ERROR_INVALID_ARGUMENT;
  return guarded([&]() -> Qnn_ErrorHandle_t {
    const auto found = objects().find<Log>(log);
    if (log != nullptr && found == nullptr) return QNN_BACKEND_ERROR_INVALID_HANDLE;
    const Logger logger(found);
    for (; config != nullptr && *config != nullptr; ++config) {
      if ((*config)->option > QNN_BACKEND_CONFIG_OPTION_PLATFORM) return QNN_BACKEND_ERROR_INVALID_CONFIG;
    }
    std::shared_ptr<Engine> engine;
    const Qnn_ErrorHandle_t code = startEngine(logger, engine);
    if (code != QNN_SUCCESS) return code;
    *made = objects().add(std::make_shared<Backend>(logger, std::move(engine)));
    return QNN_SUCCESS;
  });
}

Qnn_ErrorHandle_t backendGetApiVersion(Qnn_ApiVersion_t* version) {
  if (version == nullptr) return QNN_BACKEND_ERROR_INVALID_ARGUMENT;
  *version = {coreApi, identity.version};
  return QNN_SUCCESS;
}

// The build id names the processor, so that clients print what ran.
Qnn_ErrorHandle_t backendGetBuildId(const char** id) {
  if (id == nullptr) return QNN_BACKEND_ERROR_INVALID_ARGUMENT;
  return guarded([&]() -> Qnn_ErrorHandle_t {
    static const std::string text = [] {
      std::shared_ptr<Engine> engine;
      const Logger silent(std::make_shared<Log>(nullptr, static_cast<QnnLog_Level_t>(0)));
      return "udogen's emulator" + (startEngine(silent, engine) == QNN_SUCCESS ? " on " + engine->title() : "");
    }();
    *id = text.c_str();
    return QNN_SUCCESS;
  });
}

Qnn_ErrorHandle_t backendRegisterOpPackage(Qnn_BackendHandle_t handle, const char* path, const char* provider,
                                           const char* target) {
  return with<Backend>(handle, QNN_BACKEND_ERROR_INVALID_HANDLE, [&](const auto& backend) -> Qnn_ErrorHandle_t {
    if (path == nullptr || provider == nullptr) return QNN_BACKEND_ERROR_INVALID_ARGUMENT;
    const std::string wanted = target == nullptr ? "" : target;  // ONNX Runtime gives an empty one for none
    if (!wanted.empty() && wanted != identity.target) {
      backend->logger.error("op packages of this backend are registered for %s, not for %s", identity.target, target);
      return QNN_BACKEND_ERROR_NOT_SUPPORTED;
    }
    std::shared_ptr<Package> package;
    const Qnn_ErrorHandle_t code =
        Package::load(path, provider, backend->engine->infrastructure(), identity.forwardsLog, backend->logger, package);
    if (code != QNN_SUCCESS) return code;
    if (package->name() == builtInPackage) {
      backend->logger.error("op package %s has the name of the built-in ops, `%s`", path, builtInPackage);
      return QNN_BACKEND_ERROR_OP_PACKAGE_REGISTRATION_FAILED;
    }
    if (backend->find(package->name().c_str()) != nullptr) {
      backend->logger.error("op package `%s` is registered already", package->name().c_str());
      return QNN_BACKEND_ERROR_OP_PACKAGE_REGISTRATION_FAILED;
    }
    const std::lock_guard<std::mutex> lock(backend->mutex);
    backend->packages.push_back(std::move(package));
    return QNN_SUCCESS;
  });
}

Qnn_ErrorHandle_t backendGetSupportedOperations(Qnn_BackendHandle_t handle, std::uint32_t* count,
                                                const QnnBackend_OperationName_t** names) {
  return with<Backend>(handle, QNN_BACKEND_ERROR_INVALID_HANDLE, [&](const auto& backend) -> Qnn_ErrorHandle_t {
    if (count == nullptr || names == nullptr) return QNN_BACKEND_ERROR_INVALID_ARGUMENT;
    const std::lock_guard<std::mutex> lock(backend->mutex);
    backend->operations.clear();
    for (const char* const name : builtInNames()) {
      backend->operations.push_back({builtInPackage, name, identity.target});
    }
    for (const auto& package : backend->packages) {
      for (const std::string& name : package->operations()) {
        backend->operations.push_back({package->name().c_str(), name.c_str(), identity.target});
      }
    }
    *count = static_cast<std::uint32_t>(backend->operations.size());
    *names = backend->operations.data();
    return QNN_SUCCESS;
  });
}

Qnn_ErrorHandle_t backendValidateOpConfig(Qnn_BackendHandle_t handle, Qnn_OpConfig_t op) {
  return with<Backend>(handle, QNN_BACKEND_ERROR_INVALID_HANDLE, [&](const auto& backend) -> Qnn_ErrorHandle_t {
    if (op.version != QNN_OPCONFIG_VERSION_1 || op.v1.typeName == nullptr) return QNN_BACKEND_ERROR_INVALID_ARGUMENT;
    if (isBuiltIn(op.v1)) return validateBuiltIn(op.v1, backend->logger);
    const auto package = backend->find(op.v1.packageName);
    if (package == nullptr) return QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND;
    return package->calls().validateOpConfig(op);
  });
}

Qnn_ErrorHandle_t backendFree(Qnn_BackendHandle_t handle) {
  return guarded([&]() -> Qnn_ErrorHandle_t {
    return objects().take<Backend>(handle) == nullptr ? QNN_BACKEND_ERROR_INVALID_HANDLE : QNN_SUCCESS;
  });
}

// --- devices: one, with one core --------------------------------------------------------------------------------

const QnnDevice_PlatformInfo_t& platform() {
  static QnnDevice_CoreInfo_t core = {QNN_DEVICE_CORE_INFO_VERSION_1, {{0, 0, nullptr}}};
  static QnnDevice_HardwareDeviceInfo_t hardware = {QNN_DEVICE_HARDWARE_DEVICE_INFO_VERSION_1,
                                                    {{0, 0, 1, &core, nullptr}}};
  static const QnnDevice_PlatformInfo_t info = {QNN_DEVICE_PLATFORM_INFO_VERSION_1, {{1, &hardware}}};
  return info;
}

Qnn_ErrorHandle_t deviceGetPlatformInfo(Qnn_LogHandle_t, const QnnDevice_PlatformInfo_t** info) {
  if (info == nullptr) return QNN_DEVICE_ERROR_INVALID_ARGUMENT;
  *info = &platform();
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t deviceFreePlatformInfo(Qnn_LogHandle_t, const QnnDevice_PlatformInfo_t* info) {
  return info == nullptr ? QNN_DEVICE_ERROR_INVALID_ARGUMENT : QNN_SUCCESS;  // it is static
}

Qnn_ErrorHandle_t deviceCreate(Qnn_LogHandle_t log, const QnnDevice_Config_t** config, Qnn_DeviceHandle_t* made) {
  if (made == nullptr) return QNN_DEVICE_ERROR_INVALID_ARGUMENT;
  if (log != nullptr && objects().find<Log>(log) == nullptr) return QNN_DEVICE_ERROR_INVALID_HANDLE;
  for (; config != nullptr && *config != nullptr; ++config) {
    if ((*config)->option > QNN_DEVICE_CONFIG_OPTION_PLATFORM_INFO) return QNN_DEVICE_ERROR_INVALID_CONFIG;
  }
  return guarded([&] { return *made = objects().add(std::make_shared<Device>()), QNN_SUCCESS; });
}

Qnn_ErrorHandle_t deviceFree(Qnn_DeviceHandle_t handle) {
  return objects().take<Device>(handle) == nullptr ? QNN_DEVICE_ERROR_INVALID_HANDLE : QNN_SUCCESS;
}

}  // namespace

void fillBackend(QnnInterface_ImplementationV2_t& table) {
  table.logCreate = logCreate;
  table.logSetLogLevel = logSetLogLevel;
  table.logFree = logFree;
  table.backendCreate = backendCreate;
  table.backendGetApiVersion = backendGetApiVersion;
  table.backendGetBuildId = backendGetBuildId;
  table.backendRegisterOpPackage = backendRegisterOpPackage;
  table.backendGetSupportedOperations = backendGetSupportedOperations;
  table.backendValidateOpConfig = backendValidateOpConfig;
  table.backendFree = backendFree;
  table.deviceGetPlatformInfo = deviceGetPlatformInfo;
  table.deviceFreePlatformInfo = deviceFreePlatformInfo;
  table.deviceCreate = deviceCreate;
  table.deviceFree = deviceFree;
}

}  // namespace emulator
