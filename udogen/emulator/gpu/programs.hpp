// Compiled programs: each text once for a context, whatever number of nodes run it.
#pragma once

#include <map>
#include <mutex>

#include "GPU/QnnGpuOpPackage.h"
#include "engine.hpp"
#include "opencl.hpp"

namespace emulator {

class Programs : public ContextState {
 public:
  explicit Programs(std::shared_ptr<ClDevice> device) : device_(std::move(device)) {}

  /// The kernel, of a program that is compiled now or was before; empty, and the reason in the log.
  OwnedKernel kernel(const QnnGpu_Kernel_t& described, const Logger& logger);

  std::size_t compiled() const { return programs_.size(); }

 private:
  struct Entry {
    std::string text, options;
    OwnedProgram program;
  };
  OwnedProgram compile(const Entry& entry, const char* name, const Logger& logger);

  std::shared_ptr<ClDevice> device_;
  std::mutex mutex_;
  std::map<std::string, Entry> programs_;  // by the kernel's name, as the real backend knows them
};

}  // namespace emulator
