#include "registry.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <set>

namespace emulator {
namespace {

// Where qhpi_register_ops_v1 puts faults while `registerKernels` calls it on this thread.
thread_local std::vector<std::string>* faultsOfCaller = nullptr;

/// A fault of a kernel record that would crash the emulator, or crashes libQnnHtp; empty if it has none.
std::string faultOf(const QHPI_Kernel_v1& kernel) {
  if (kernel.function_name == nullptr || *kernel.function_name == '\0') return "it has no function_name";
  const bool isPrepared = kernel.function_with_precomputed_data != nullptr;
  if (isPrepared == (kernel.function != nullptr)) {
    return "it needs either function or function_with_precomputed_data, the other is NULL";
  }
  if (isPrepared && (kernel.do_precomputation_function == nullptr || kernel.precomputed_data_size == 0)) {
    return "function_with_precomputed_data needs do_precomputation_function and precomputed_data_size";
  }
  for (const void* const each : kernel.reserved) {
    if (each != nullptr) return "a reserved pointer of its record is not NULL";
  }
  const auto takesAny = [](const QHPI_Tensor_Signature_v1* signature, std::uint32_t count) {
    return std::any_of(signature, signature + count, [](const auto& each) { return each.layout == QHPI_Layout_Any; });
  };
  if (kernel.min_inputs != 0 && kernel.input_signature == nullptr) return "it has no input_signature";
  if (kernel.min_outputs != 0 && kernel.output_signature == nullptr) return "it has no output_signature";
  if (takesAny(kernel.input_signature, kernel.min_inputs) || takesAny(kernel.output_signature, kernel.min_outputs)) {
    return "it takes any layout, with which libQnnHtp crashes when the graph is finalized: name one";
  }
  return "";
}

void checkOp(const QHPI_OpInfo_v1& op, std::vector<std::string>& faults) {
  const std::string title = std::string("op ") + op.name;
  const bool isReserved =
      std::any_of(std::begin(op.reserved), std::end(op.reserved), [](auto each) { return each != nullptr; });
  if (isReserved) faults.push_back(title + ": a reserved pointer of its record is not NULL");
  if (op.num_kernels != 0 && op.kernels == nullptr) return faults.push_back(title + ": it has no kernels");
  std::set<std::string> names;
  for (std::uint32_t i = 0; i < op.num_kernels; ++i) {
    const std::string name = op.kernels[i].function_name == nullptr ? "without a name" : op.kernels[i].function_name;
    const std::string fault = faultOf(op.kernels[i]);
    if (!fault.empty()) faults.push_back(title + ", kernel " + name + ": " + fault);
    if (!names.insert(name).second) {
      faults.push_back(title + ": two kernels are called " + name + ", which SDK 2.49 and later refuse");
    }
  }
}

}  // namespace

std::vector<std::string> Registry::add(std::uint32_t count, const QHPI_OpInfo_v1* ops, const char* package) {
  std::vector<std::string> faults;
  if (package == nullptr || *package == '\0') faults.emplace_back("qhpi_register_ops_v1 was called without a package");
  if (count == 0 || ops == nullptr) faults.emplace_back("qhpi_register_ops_v1 was called without ops");
  if (!faults.empty()) return faults;
  const std::lock_guard<std::mutex> lock(mutex_);
  std::set<std::string> seen;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (ops[i].name == nullptr) {
      faults.push_back("op " + std::to_string(i) + " of package " + package + " has no name");
      continue;
    }
    checkOp(ops[i], faults);
    if (!seen.insert(ops[i].name).second || ops_.count(ops[i].name) != 0) {
      faults.push_back(std::string("op ") + ops[i].name + " is registered already");
    }
  }
  if (!faults.empty()) return faults;
  for (std::uint32_t i = 0; i < count; ++i) ops_[ops[i].name] = ops[i];
  return faults;
}

const QHPI_OpInfo_v1* Registry::find(const std::string& name) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = ops_.find(name);
  return found == ops_.end() ? nullptr : &found->second;
}

Registry& registry() {
  static auto* const all = new Registry;
  return *all;
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
  if (before != asked.end()) {
    if (before->second != QNN_SUCCESS) logger.error("op package %s was refused before, in this process", path);
    return before->second;
  }
  void* const symbol = dlsym(library, "qhpi_init");
  if (symbol == nullptr) {
    if (dlsym(library, "op_pkg_init") != nullptr) {
      logger.error("op package %s is of HTP's C++ interface (op_pkg_init), which lives inside Qualcomm's library: the "
                   "emulator runs QHPI packages, `udogen generate --htp-api qhpi`", path);
      return QNN_BACKEND_ERROR_OP_PACKAGE_REGISTRATION_FAILED;
    }
    logger.error("Unable to find the op package initialization function op_pkg_init in op package %s", path);
    return QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND;
  }
  std::vector<std::string> faults;
  faultsOfCaller = &faults;
  const char* const name = reinterpret_cast<const char* (*)()>(symbol)();
  faultsOfCaller = nullptr;
  for (const std::string& each : faults) logger.error("%s", each.c_str());
  if (name == nullptr && faults.empty()) logger.error("qhpi_init of op package %s failed", path);
  const bool fine = name != nullptr && faults.empty();
  return asked[library] = fine ? QNN_SUCCESS : QNN_BACKEND_ERROR_OP_PACKAGE_REGISTRATION_FAILED;
}

}  // namespace emulator

extern "C" __attribute__((visibility("default"))) QHPI_StatusCode qhpi_register_ops_v1(std::uint32_t count,
                                                                                    QHPI_OpInfo_v1* ops,
                                                                                    const char* package) {
  try {
    std::vector<std::string> faults = emulator::registry().add(count, ops, package);
    const bool fine = faults.empty();
    if (emulator::faultsOfCaller != nullptr) {
      emulator::faultsOfCaller->insert(emulator::faultsOfCaller->end(), faults.begin(), faults.end());
    } else {
      for (const std::string& each : faults) emulator::Logger().error("%s", each.c_str());
    }
    return fine ? QHPI_Success : QHPI_RegistrationError;
  } catch (const std::exception&) {
    return QHPI_ErrorFatal;
  }
}
