#include "registry.hpp"

#include <dlfcn.h>

#include <map>
#include <mutex>

namespace emulator {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, QHPI_OpInfo_v1> ops;
};

Registry& registry() {
  static auto* const all = new Registry;  // never destroyed: packages stay loaded
  return *all;
}

/// False if an op has no name, no kernels, or is registered already; then nothing is added.
bool add(std::uint32_t count, const QHPI_OpInfo_v1* infos) {
  auto& [mutex, ops] = registry();
  const std::lock_guard<std::mutex> lock(mutex);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (infos[i].name == nullptr || infos[i].kernels == nullptr || ops.count(infos[i].name) != 0) return false;
  }
  for (std::uint32_t i = 0; i < count; ++i) ops[infos[i].name] = infos[i];
  return true;
}

}  // namespace

const QHPI_OpInfo_v1* findOp(const std::string& name) {
  auto& [mutex, ops] = registry();
  const std::lock_guard<std::mutex> lock(mutex);
  const auto op = ops.find(name);
  return op == ops.end() ? nullptr : &op->second;
}

Qnn_ErrorHandle_t registerKernels(const char* path, const Logger& logger) {
  // One at a time: each library is asked once, and stays loaded.
  static std::mutex mutex;
  static std::map<void*, Qnn_ErrorHandle_t> asked;
  const std::lock_guard<std::mutex> lock(mutex);
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string why = dlerror();  // a copy: the client's log may look up symbols too
    logger.error("op package %s cannot be loaded: %s", path, why.c_str());
    return QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND;
  }
  const auto before = asked.find(library);
  if (before != asked.end()) return before->second;
  void* const symbol = dlsym(library, "qhpi_init");
  if (symbol == nullptr) {
    logger.error("op package %s has no function qhpi_init: the emulator runs packages of `udogen generate --htp-api qhpi`",
                 path);
    return asked[library] = QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND;
  }
  const char* const name = reinterpret_cast<const char* (*)()>(symbol)();
  if (name == nullptr) logger.error("qhpi_init of op package %s failed", path);
  return asked[library] = name != nullptr ? QNN_SUCCESS : QNN_BACKEND_ERROR_OP_PACKAGE_REGISTRATION_FAILED;
}

}  // namespace emulator

extern "C" __attribute__((visibility("default"))) QHPI_StatusCode qhpi_register_ops_v1(std::uint32_t count,
                                                                                    QHPI_OpInfo_v1* ops, const char*) {
  return ops != nullptr && emulator::add(count, ops) ? QHPI_Success : QHPI_RegistrationError;
}
