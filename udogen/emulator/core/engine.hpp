// What makes one kind of backend of the bookkeeping in this folder: the processor on which its packages run.  Each library
// is linked with one engine: a folder beside this one.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "QnnContext.h"
#include "QnnGraph.h"
#include "QnnInterface.h"
#include "mem.hpp"
#include "node.hpp"

namespace emulator {

struct Identity {
  std::uint32_t backendId;
  const char* provider;
  Qnn_Version_t version;  // of the backend's own part of the API
  const char* target;     // as which packages may be registered
  bool forwardsLog = true;  // packages get the log
  // A node's package may refuse it when it is added; else only tensors that are quantized per channel are refused.
  bool asksPackages = true;
  bool sizesPerCall = false;  // tensors may have dynamic dimensions
  void (*specialize)(QnnInterface_ImplementationV2_t& table) = nullptr;  // calls that this backend has in its own way
};

/// Microseconds by name, in the order in which they were measured.
struct Measured {
  struct Row {
    std::string name;
    std::uint64_t microseconds;
  };
  using Clock = std::chrono::steady_clock;

  /// Adds a node that ran from `begun` until now.
  void add(const std::string& name, Clock::time_point begun) {
    const auto spent = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begun);
    nodes.push_back({name, static_cast<std::uint64_t>(spent.count())});
  }

  std::vector<Row> nodes;
};

/// A finalized graph.
class Executable {
 public:
  virtual ~Executable() = default;

  /// Buffers of the client, in the order of the graph's inputs and outputs; their sizes are checked.
  virtual Qnn_ErrorHandle_t execute(const std::vector<const void*>& inputs, const std::vector<void*>& outputs,
                                    Measured* measured) = 0;
};

/// What all graphs of a context share, such as compiled kernels.
class ContextState {
 public:
  virtual ~ContextState() = default;
};

/// A graph as an engine sees it.
struct Composed {
  const char* name;
  const TensorMap& tensors;
  const std::vector<std::unique_ptr<Node>>& nodes;
  std::vector<const Tensor*> inputs, outputs;
  std::uint32_t option;  // what the engine made of the graph's own configs
};

class Engine {
 public:
  virtual ~Engine() = default;

  /// The processor, for messages.
  virtual const std::string& title() const = 0;
  virtual QnnOpPackage_GlobalInfrastructure_t infrastructure() = 0;
  virtual std::unique_ptr<ContextState> makeContextState() = 0;
  /// Reads a graph's own config into Composed::option.
  virtual Qnn_ErrorHandle_t configure(const QnnGraph_CustomConfig_t config, std::uint32_t& option) const = 0;
  virtual Qnn_ErrorHandle_t compile(ContextState& shared, const Composed& graph, const Logger& logger,
                                    std::unique_ptr<Executable>& made) = 0;
  /// Reads the descriptor of custom memory.  Here: a buffer that many tensors share (HTP/QnnHtpMem.h).
  virtual Qnn_ErrorHandle_t readMemory(Qnn_MemInfoCustom_t info, MemRequest& request, const Logger& logger) const;
  /// Answers a property of a context that only this backend has.
  virtual Qnn_ErrorHandle_t property(const Context&, QnnContext_CustomProperty_t) const {
    return QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE;
  }
};

/// The core API of SDK 2.47, the last with a libQnnCpu: clients refuse an older one.
constexpr Qnn_Version_t coreApi = {2, 36, 0};
extern const Identity identity;
/// The engine of this library; an error, with a sentence in the log, if this machine lacks what it needs.
Qnn_ErrorHandle_t startEngine(const Logger& logger, std::shared_ptr<Engine>& made);

}  // namespace emulator
