#include "registry.hpp"

#include <dlfcn.h>

#include <set>

#include "layout.hpp"

namespace emulator {
namespace {

// What qhpi_register_ops_v1 finds wrong while `admit` waits for it, on this thread.
thread_local std::vector<std::string>* faultsOfCaller = nullptr;

/// One kernel record; the sentences that say what is wrong with it.
class KernelCheck {
 public:
  KernelCheck(const QHPI_Kernel_v1& kernel, const std::string& op, std::vector<std::string>& faults)
      : kernel_(kernel), faults_(faults) {
    title_ = "op " + op + ", kernel " + (kernel.function_name == nullptr ? "without a name" : kernel.function_name);
  }

  void run() {
    if (kernel_.function_name == nullptr || *kernel_.function_name == '\0') say("it has no function_name");
    functions();
    if ((kernel_.resources & ~0xfu) != 0 || kernel_.resources == 0) say("its resources are no set of MAIN, HVX, HMX");
    for (const void* const each : kernel_.reserved) {
      if (each != nullptr) return say("a reserved pointer of its record is not NULL");
    }
    signatures("input", kernel_.input_signature, kernel_.min_inputs);
    signatures("output", kernel_.output_signature, kernel_.min_outputs);
  }

 private:
  void say(const std::string& what) { faults_.push_back(title_ + ": " + what); }

  void functions() {
    const bool prepared = kernel_.function_with_precomputed_data != nullptr;
    if (prepared == (kernel_.function != nullptr)) {
      say("one of function and function_with_precomputed_data must be there, and the other NULL");
    }
    if (prepared && (kernel_.do_precomputation_function == nullptr || kernel_.precomputed_data_size == 0)) {
      say("function_with_precomputed_data needs do_precomputation_function and precomputed_data_size");
    }
  }

  void signatures(const char* what, const QHPI_Tensor_Signature_v1* signature, std::uint32_t count) {
    if (count != 0 && signature == nullptr) return say(std::string("it has no ") + what + "_signature");
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::string place = std::string(what) + " " + std::to_string(i);
      const QHPI_Tensor_Signature_v1& each = signature[i];
      const bool any = each.element_type == QHPI_Any_Element_Type;
      if (!any && sizeOfElement(each.element_type) == 0) say(place + " is of no element type");
      if (each.mem_placement > QHPI_MemLoc_DDR_OR_TCM) say(place + " has no memory placement");
      if (each.storage > QHPI_Storage_Direct_OR_Indirect) say(place + " has no storage");
      if (each.layout == QHPI_Layout_Any) {
        say(place + " takes any layout, with which libQnnHtp crashes when the graph is finalized: name one");
      } else if (each.layout != QHPI_Layout_ShapeOnly && layoutOf(each.layout) == nullptr) {
        say(place + " is of no known layout");
      } else if (each.storage == QHPI_Storage_Indirect && !hasBlocks(each.layout)) {
        say(place + ": invalid storage type: Indirect, of layout " + nameOfLayout(each.layout));
      }
    }
  }

  const QHPI_Kernel_v1& kernel_;
  std::string title_;
  std::vector<std::string>& faults_;
};

void checkOp(const QHPI_OpInfo_v1& op, const std::string& prefix, std::vector<std::string>& faults) {
  const std::string name = op.name;
  if (name.rfind(prefix, 0) != 0 || name.size() == prefix.size()) {
    faults.push_back("op " + name + ": its name must begin with the package, " + prefix);
  }
  for (const void* const each : op.reserved) {
    if (each == nullptr) continue;
    faults.push_back("op " + name + ": a reserved pointer of its record is not NULL");
    break;
  }
  if ((op.build_tile == nullptr) != (op.shape_required == nullptr)) {
    faults.push_back("op " + name + ": shape_required and build_tile are given together");
  }
  if (op.num_kernels != 0 && op.kernels == nullptr) {
    faults.push_back("op " + name + ": it has no kernels");
    return;
  }
  std::set<std::string> seen;
  for (std::uint32_t i = 0; i < op.num_kernels; ++i) {
    KernelCheck(op.kernels[i], name, faults).run();
    const char* const called = op.kernels[i].function_name;
    if (called != nullptr && !seen.insert(called).second) {
      faults.push_back("op " + name + ": two kernels are called " + called + ", which SDK 2.49 and later refuse");
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
    checkOp(ops[i], std::string(package) + "::", faults);
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

Qnn_ErrorHandle_t admit(const char* path, const Logger& logger) {
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

const char* nameOfElement(QHPI_Element_Type type) {
  constexpr const char* names[] = {"UNKNOWN", "QUInt8", "QUInt16", "QInt16", "Float32",
                                   "Int32",   "QInt32", "QInt8",   "Float16", "Int64"};
  return type < sizeof names / sizeof *names ? names[type] : type == QHPI_Any_Element_Type ? "Any" : "invalid";
}

const char* nameOfLayout(QHPI_Standard_Layout layout) {
  constexpr const char* names[] = {"Any",         "ShapeOnly",    "Flat4",      "Flat5",      "Flat6",      "Singular",
                                   "NCHW",        "Depth32",      "Weights8x4", "Crouton_8",  "Crouton_16", "Crouton_32",
                                   "Crouton_4x1", "Crouton_2x2", "WideCrouton_8", "WideCrouton_32", "WideCrouton_2x2"};
  return layout < sizeof names / sizeof *names ? names[layout] : "invalid";
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
