// The built-in ops of QNN (package `qti.aisw`) that every backend of the emulator has, computed on this machine's processor.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "log.hpp"
#include "QnnClientTypes.h"

namespace emulator {

/// The package that a node of a built-in op names.
constexpr const char* builtInPackage = "qti.aisw";

inline bool isBuiltIn(const Qnn_OpConfigV1_t& config) {
  return config.packageName != nullptr && std::string(config.packageName) == builtInPackage;
}

/// One node, with its shapes, types and parameters.
class BuiltIn {
 public:
  virtual ~BuiltIn() = default;
  /// Data in the order of the node's inputs and outputs; null for an input that is left out.
  virtual void execute(const void* const* inputs, void* const* outputs) const = 0;
};

/// Their names, sorted.
const std::vector<const char*>& builtInNames();

/// Checks a node: 1000 for an op that there is not, 3110 for what the op does not take, with a sentence in the log.
Qnn_ErrorHandle_t validateBuiltIn(const Qnn_OpConfigV1_t& config, const Logger& logger);

/// Whether an op follows inputs whose size changes from call to call.
bool isSizedPerCall(const Qnn_OpConfigV1_t& config);

/// The dimensions of its output, which follow from those of its inputs; empty where they do not fit together.
std::vector<std::uint32_t> shapeOfBuiltIn(const Qnn_OpConfigV1_t& config);

/// Checks a node and prepares it.  Parameters are read here: their data need not outlive the call.
Qnn_ErrorHandle_t makeBuiltIn(const Qnn_OpConfigV1_t& config, const Logger& logger, std::unique_ptr<BuiltIn>& made);

}  // namespace emulator
