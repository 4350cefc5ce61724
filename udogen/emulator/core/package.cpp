#include "package.hpp"

#include <dlfcn.h>

#include <map>
#include <mutex>

namespace emulator {
namespace {

std::mutex mutex;
std::map<void*, std::weak_ptr<Package>>& loaded() {
  static auto* const all = new std::map<void*, std::weak_ptr<Package>>;
  return *all;
}

const char* missing(const QnnOpPackage_ImplementationV1_4_t& calls) {
  if (calls.init == nullptr) return "init";
  if (calls.terminate == nullptr) return "terminate";
  if (calls.getInfo == nullptr) return "getInfo";
  if (calls.validateOpConfig == nullptr) return "validateOpConfig";
  if (calls.createOpImpl == nullptr) return "createOpImpl";
  if (calls.freeOpImpl == nullptr) return "freeOpImpl";
  if (calls.logInitialize == nullptr) return "logInitialize";
  if (calls.logSetLevel == nullptr) return "logSetLevel";
  return calls.logTerminate == nullptr ? "logTerminate" : nullptr;
}

}  // namespace

Qnn_ErrorHandle_t Package::load(const char* path, const char* provider,
                                QnnOpPackage_GlobalInfrastructure_t infrastructure, bool forwardsLog, const Logger& logger,
                                std::shared_ptr<Package>& made) {
  // Never closed again: what the package has started may still run.
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string why = dlerror();  // a copy: the client's log may look up symbols too
    logger.error("op package %s cannot be loaded: %s", path, why.c_str());
    return QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND;
  }
  void* const symbol = dlsym(library, provider);
  if (symbol == nullptr) {
    logger.error("op package %s has no %s", path, provider);
    return QNN_BACKEND_ERROR_OP_PACKAGE_IF_PROVIDER_NOT_FOUND;
  }
  const std::lock_guard<std::mutex> lock(mutex);
  const std::shared_ptr<Log>& log = logger.log();
  const bool listens = forwardsLog && log != nullptr && log->callback != nullptr;
  if ((made = loaded()[symbol].lock()) != nullptr) {
    if (listens) made->calls().logInitialize(log->callback, log->level.load());
    made->listens_ = made->listens_ || listens;
    return QNN_SUCCESS;
  }
  auto package = std::make_shared<Package>();
  const auto provide = reinterpret_cast<QnnOpPackage_InterfaceProvider_t>(symbol);
  if (provide(&package->interface_) != QNN_SUCCESS) return QNN_BACKEND_ERROR_OP_PACKAGE_REGISTRATION_FAILED;
  if (package->interface_.interfaceVersion.major != 1) {
    logger.error("op package %s has version %u of the interface; this backend supports 1.4", path,
                 package->interface_.interfaceVersion.major);
    return QNN_BACKEND_ERROR_OP_PACKAGE_UNSUPPORTED_VERSION;
  }
  const QnnOpPackage_ImplementationV1_4_t& calls = package->calls();
  if (const char* const name = missing(calls)) {
    logger.error("the interface of op package %s has no %s", path, name);
    return QNN_BACKEND_ERROR_OP_PACKAGE_UNSUPPORTED_VERSION;
  }
  if (listens) calls.logInitialize(log->callback, log->level.load());
  const Qnn_ErrorHandle_t started = calls.init(infrastructure);
  if (started != QNN_SUCCESS) {
    logger.error("init of op package %s failed with %llu", path, static_cast<unsigned long long>(started));
    return started;  // as libQnnCpu: regardless of its result
  }
  package->started_ = true;
  package->listens_ = listens;
  const QnnOpPackage_Info_t* info = nullptr;
  if (calls.getInfo(&info) != QNN_SUCCESS || info == nullptr || info->packageName == nullptr) {
    logger.error("op package %s has no name", path);
    return QNN_BACKEND_ERROR_OP_PACKAGE_REGISTRATION_FAILED;
  }
  package->name_ = info->packageName;
  for (std::uint32_t i = 0; i < info->numOperations && info->operationNames != nullptr; ++i) {
    if (info->operationNames[i] != nullptr) package->operations_.emplace_back(info->operationNames[i]);
  }
  loaded()[symbol] = package;
  made = std::move(package);
  return QNN_SUCCESS;
}

Package::~Package() {
  if (!started_) return;
  calls().terminate();
  if (listens_) calls().logTerminate();
}

}  // namespace emulator
