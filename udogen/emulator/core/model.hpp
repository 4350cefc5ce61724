// Backends, devices, contexts and graphs, and what belongs to whom.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine.hpp"
#include "package.hpp"
#include "queue.hpp"

namespace emulator {

struct Backend : Object {
  static constexpr Kind itsKind = Kind::backend;
  Backend(Logger logger, std::shared_ptr<Engine> engine)
      : Object(itsKind), logger(std::move(logger)), engine(std::move(engine)) {}

  const Logger logger;
  const std::shared_ptr<Engine> engine;
  std::mutex mutex;  // of what follows
  std::vector<std::shared_ptr<Package>> packages;
  std::vector<QnnBackend_OperationName_t> operations;

  void setPackagesLevel(QnnLog_Level_t level) {
    const std::lock_guard<std::mutex> lock(mutex);
    for (const auto& each : packages) {
      if (each->listens()) each->calls().logSetLevel(level);
    }
  }

  std::shared_ptr<Package> find(const char* package) {
    const std::lock_guard<std::mutex> lock(mutex);
    for (const auto& each : packages) {
      if (package != nullptr && each->name() == package) return each;
    }
    return nullptr;
  }
};

struct Device : Object {
  static constexpr Kind itsKind = Kind::device;
  Device() : Object(itsKind) {}
};

struct Profile : Object {
  static constexpr Kind itsKind = Kind::profile;
  explicit Profile(QnnProfile_Level_t level) : Object(itsKind), level(level) {}

  struct Event {
    std::string name;
    QnnProfile_EventType_t type;
    std::uint64_t microseconds;
    std::vector<QnnProfile_EventId_t> below;
  };
  /// Takes the place of what was measured before.
  void measure(const char* name, QnnProfile_EventType_t type, std::uint64_t microseconds, const Measured& measured);

  const QnnProfile_Level_t level;
  std::mutex mutex;
  std::vector<QnnProfile_EventId_t> top;
  std::map<QnnProfile_EventId_t, Event> events;
};

struct Graph;

struct Context : Object {
  static constexpr Kind itsKind = Kind::context;
  explicit Context(std::shared_ptr<Backend> of)
      : Object(itsKind), backend(std::move(of)), shared(backend->engine->makeContextState()) {}

  const std::shared_ptr<Backend> backend;
  const std::unique_ptr<ContextState> shared;
  std::mutex mutex;
  std::map<std::string, std::pair<std::shared_ptr<Graph>, void*>> graphs;  // with their handles
  std::map<void*, std::shared_ptr<Mem>> memory;                            // registered, by handle
  bool sharesWeights = false;  // equal constants of its graphs are stored once
  std::vector<std::string> enabled;                                        // graphs to restore; none: all
  Queue queue;                                                             // asynchronous executions
};

/// The client's buffers of one execution, in the order of the graph's inputs and outputs.
struct Bound {
  Bound() = default;
  ~Bound() { clear(); }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;
  void clear();

  std::vector<void*> from, to;
  std::vector<const void*> read;
  std::vector<std::shared_ptr<Mem>> held;  // registered memory among them
  std::vector<std::pair<std::uint32_t, std::vector<std::uint32_t>>> sizes;  // of inputs with dynamic dimensions, by id
  std::vector<std::pair<const Tensor*, std::uint32_t*>> shapes;             // of such outputs, for the client
};

struct Graph : Object {
  static constexpr Kind itsKind = Kind::graph;
  Graph(std::shared_ptr<Context> context, std::string name)
      : Object(itsKind), context(std::move(context)), name(std::move(name)) {}

  Qnn_ErrorHandle_t addTensor(const Qnn_Tensor_t& from, std::uint32_t& id);
  Qnn_ErrorHandle_t addNode(const Qnn_OpConfig_t& config);
  Qnn_ErrorHandle_t finalize(Profile* profile);
  Qnn_ErrorHandle_t execute(const Qnn_Tensor_t* inputs, std::uint32_t numInputs, const Qnn_Tensor_t* outputs,
                            std::uint32_t numOutputs, Profile* profile);
  /// Binds now and runs later, on the thread of the context; `done` gets the code.
  Qnn_ErrorHandle_t enqueue(const Qnn_Tensor_t* inputs, std::uint32_t numInputs, const Qnn_Tensor_t* outputs,
                            std::uint32_t numOutputs, std::shared_ptr<Profile> profile,
                            std::function<void(Qnn_ErrorHandle_t)> done);

  const std::shared_ptr<Context> context;  // which releases its graphs when it is freed
  const std::string name;
  std::mutex mutex;  // one call at a time: an execution too
  std::uint32_t option = 0;
  bool isEnabled = true;  // false: restored without being made ready
  TensorMap tensors;
  std::vector<std::unique_ptr<Node>> nodes;
  std::unique_ptr<Executable> executable;    // once it is finalized
  std::vector<const Tensor*> inputs, outputs;  // which do not change from then on

 private:
  Qnn_ErrorHandle_t bindAll(const Qnn_Tensor_t* inputs, std::uint32_t numInputs, const Qnn_Tensor_t* outputs,
                            std::uint32_t numOutputs, Bound& bound) const;
  Qnn_ErrorHandle_t bind(const Qnn_Tensor_t* given, std::uint32_t count, const std::vector<const Tensor*>& wanted,
                         const char* what, std::vector<void*>& buffers, Bound& bound) const;
  Qnn_ErrorHandle_t bufferOf(const Qnn_TensorV1_t& given, const Tensor& wanted, const char* what, void*& buffer,
                             Bound& bound) const;
  Qnn_ErrorHandle_t sizeOf(const Qnn_TensorV1_t& given, const Tensor& wanted, const char* what, Bound& bound) const;
  /// Gives tensors with dynamic dimensions those of this execution, and compiles the nodes for them if they are others.
  Qnn_ErrorHandle_t resize(const Bound& bound);
  Qnn_ErrorHandle_t compile();
  Qnn_ErrorHandle_t run(const Bound& bound, Profile* profile);
  bool stale_ = false;  // its dimensions are others than those that it was compiled for
  std::atomic<bool> ready_{false};  // finalized: binding may read without the lock
};

/// A context as bytes, and back: with a version, the name of the backend and a checksum.
std::vector<unsigned char> stored(const Context& context);
Qnn_ErrorHandle_t restore(const void* binary, std::size_t size, const std::shared_ptr<Context>& context);
/// The graphs in such bytes, with the tensors that a client binds.
struct Described {
  std::string name;
  std::vector<std::unique_ptr<Tensor>> tensors;
  std::vector<Qnn_Tensor_t> inputs, outputs;
};
Qnn_ErrorHandle_t describe(const void* binary, std::size_t size, std::vector<Described>& graphs);
/// Whether the bytes are a whole context of this backend.
Qnn_ErrorHandle_t checkBinary(const void* binary, std::size_t size, const Logger& logger);

}  // namespace emulator
