#include "programs.hpp"

#include <sstream>

namespace emulator {

OwnedKernel Programs::kernel(const QnnGpu_Kernel_t& described, const Logger& logger) {
  const char* const name = described.name == nullptr ? "" : described.name;
  if (described.sourceType != QNN_GPU_KERNEL_SOURCE_TYPE_TEXT || described.kernelSource == nullptr) {
    logger.error("kernel %s is not text: a binary runs only on the GPU that it was compiled for", name);
    return {};
  }
  const auto* const first = static_cast<const char*>(described.kernelSource);
  Entry wanted{{first, described.sourceLength}, described.buildOptions == nullptr ? "" : described.buildOptions, {}};
  const std::lock_guard<std::mutex> lock(mutex_);
  auto found = programs_.find(name);
  if (found == programs_.end()) {
    wanted.program = compile(wanted, name, logger);
    if (!wanted.program) return {};
    found = programs_.emplace(name, std::move(wanted)).first;
  } else if (found->second.text != wanted.text || found->second.options != wanted.options) {
    logger.error("two kernels are called %s but differ in text or options: a device runs the first for both",
                 name);
    return {};
  }
  cl_int code = CL_SUCCESS;
  OwnedKernel made(device_->cl, device_->cl.clCreateKernel(found->second.program.get(), name, &code));
  if (!made) logger.error("the text of kernel %s has no such kernel: %s (%d)", name, nameOf(code), code);
  return made;
}

OwnedProgram Programs::compile(const Entry& entry, const char* name, const Logger& logger) {
  const OpenCl& cl = device_->cl;
  const char* text = entry.text.data();
  const std::size_t length = entry.text.size();
  cl_int code = CL_SUCCESS;
  OwnedProgram program(cl, cl.clCreateProgramWithSource(device_->context.get(), 1, &text, &length, &code));
  if (!program) {
    logger.error("kernel %s: OpenCL cannot make a program of it: %s (%d)", name, nameOf(code), code);
    return {};
  }
  // With the types of the arguments, so that what the op passes can be compared with them; and without double, which
  // Adreno does not have: there `0.0` is a float.
  std::string options = entry.options + " -cl-kernel-arg-info -cl-single-precision-constant";
  code = cl.clBuildProgram(program.get(), 1, &device_->id, options.c_str(), nullptr, nullptr);
  // PoCL 3.1 has vload and vstore with constant memory in OpenCL 3.0, and not in 2.0.
  const std::string older = "-cl-std=CL2.0";
  const std::size_t at = options.find(older);
  if (code == CL_BUILD_PROGRAM_FAILURE && at != std::string::npos) {
    options.replace(at, older.size(), "-cl-std=CL3.0");
    code = cl.clBuildProgram(program.get(), 1, &device_->id, options.c_str(), nullptr, nullptr);
  }
  if (code == CL_SUCCESS) return program;
  logger.error("kernel %s does not compile: %s (%d)", name, nameOf(code), code);
  std::size_t size = 0;
  cl.clGetProgramBuildInfo(program.get(), device_->id, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
  std::string log(size, '\0');
  cl.clGetProgramBuildInfo(program.get(), device_->id, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr);
  std::istringstream lines(log.c_str());
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) logger.error("%s", line.c_str());
  }
  return {};
}

}  // namespace emulator
