// What op packages have registered through QHPI: op records and kernel records, checked once.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "HTP/core/qhpi.h"
#include "QnnBackend.h"
#include "log.hpp"

namespace emulator {

/// All ops of all packages of this process, by their name with the package (`Package::Op`).
class Registry {
 public:
  /// Checks and adds the records; returns their faults, in which case nothing is added.
  std::vector<std::string> add(std::uint32_t count, const QHPI_OpInfo_v1* ops, const char* package);

  const QHPI_OpInfo_v1* find(const std::string& name) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, QHPI_OpInfo_v1> ops_;
};

Registry& registry();

/// Lets the library at this path register its ops, once for the process: calls its `qhpi_init`.
Qnn_ErrorHandle_t registerKernels(const char* path, const Logger& logger);

}  // namespace emulator
