// What op packages have registered through QHPI: their ops, by their name with the package (`Package::Op`).
#pragma once

#include <string>

#include "HTP/core/qhpi.h"
#include "QnnBackend.h"
#include "log.hpp"

namespace emulator {

/// Null if no package of this process has registered it.
const QHPI_OpInfo_v1* findOp(const std::string& name);

/// Lets the library at this path register its ops, once for the process: calls its `qhpi_init`.
Qnn_ErrorHandle_t registerKernels(const char* path, const Logger& logger);

}  // namespace emulator
