// Part of every op package that udogen generates for the CPU backend; regenerating rewrites this file.
//
// Between the runtime's node and a kernel: binding, validation, and one instance per node of a graph.
#pragma once

#include <cstdint>
#include <new>

#include "BackendUtils.hpp"
#include "CustomOpUtils.hpp"

namespace udo {

/// Receives the log of the client.
void setLog(QnnLog_Callback_t callback, QnnLog_Level_t level);
void setLogLevel(QnnLog_Level_t level);

/// The parameters and tensors of one node, found by name and by position.
class Binding {
 public:
  Binding(const OpSpec& spec, const QnnCpuOpPackage_Node_t& node);

  /// The tensor at `index` of the spec; nullptr where an optional one was left out.
  RawTensor* input(std::size_t index) const;
  RawTensor* output(std::size_t index) const;

  /// The tensors that a repeated one at `index` of the spec stands for.
  template <class V>
  Repeated<V> inputs(std::size_t index) const {
    return Repeated<V>(node_.inputs + index, node_.numOfInputs - (spec_.inputs.count - 1));
  }
  template <class V>
  Repeated<V> outputs(std::size_t index) const {
    return Repeated<V>(node_.outputs + index, node_.numOfOutputs - (spec_.outputs.count - 1));
  }

  bool has(const char* param) const { return find(param) != nullptr; }
  double scalar(const char* param, double otherwise) const;
  const char* string(const char* param, const char* otherwise) const;
  const RawTensor* tensor(const char* param, const RawTensor* otherwise = nullptr) const;

 private:
  const QnnCpuOpPackage_Param_t* find(const char* param) const;

  const OpSpec& spec_;
  const QnnCpuOpPackage_Node_t& node_;
  std::uint32_t paramCount_;
};

/// A tensor that lives in tables: the default of a tensor parameter.
RawTensor defaultTensor(Qnn_DataType_t type, const void* data, const std::uint32_t* dims, std::uint32_t rank);

struct Instance;

/// One op of the package: what it looks like, and how an instance of it is made.
struct OpEntry {
  OpSpec spec;
  Status (*create)(const OpEntry& entry, const QnnCpuOpPackage_Node_t& node, Instance*& instance);
};

/// One node of a graph; what `userData` of its op points to.
struct Instance {
  QnnCpuOpPackage_OpImpl_t impl = {nullptr, nullptr};
  const OpEntry* entry = nullptr;
  void (*release)(Instance* self) = nullptr;
};

/// Holds an op config against the spec of its op; says in the log what is wrong.
Status validate(const char* package, List<OpEntry> ops, const Qnn_OpConfigV1_t& config);

/// Makes the instance of a node; frees it.
Status createInstance(const char* package, List<OpEntry> ops, QnnOpPackage_Node_t node, QnnOpPackage_OpImpl_t* impl);
Status freeInstance(QnnOpPackage_OpImpl_t impl);

/// The op that this thread runs, for messages.
class Running {
 public:
  explicit Running(const char* op);
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  const char* outer_;
};

/// The three functions of a kernel, and the glue around them; nothing is thrown into the runtime.
template <class Args, class State, Args (*Bind)(const Binding&), Status (*Finalize)(const Args&, State*&),
          Status (*Execute)(const Args&, State*), void (*Free)(State*)>
struct Kernel {
  struct Bound : Instance {
    Args args;
    State* state = nullptr;
    explicit Bound(const Args& bound) : args(bound) {}
  };

  static Status create(const OpEntry& entry, const QnnCpuOpPackage_Node_t& node, Instance*& instance) {
    const Running running(entry.spec.name);
    auto* bound = new (std::nothrow) Bound(Bind(Binding(entry.spec, node)));
    if (bound == nullptr) return QNN_OP_PACKAGE_ERROR_GENERAL;
    bound->entry = &entry;
    bound->release = release;
    const Status status = guarded([&] { return Finalize(bound->args, bound->state); });
    if (status != ok) {
      release(bound);
      return status;
    }
    bound->impl = {execute, static_cast<Instance*>(bound)};
    instance = bound;
    return ok;
  }

  static Status execute(void* userData) {
    auto* bound = static_cast<Bound*>(static_cast<Instance*>(userData));
    const Running running(bound->entry->spec.name);
    return guarded([&] { return Execute(bound->args, bound->state); });
  }

  static void release(Instance* self) {
    auto* bound = static_cast<Bound*>(self);
    const Running running(bound->entry->spec.name);
    guarded([&] {
      Free(bound->state);
      return ok;
    });
    delete bound;
  }

  template <class Step>
  static Status guarded(const Step& step) {
#if defined(__cpp_exceptions)
    try {
      return step();
    } catch (...) {
      return error("threw a C++ exception; a kernel must return an error instead");
    }
#else
    return step();
#endif
  }
};

}  // namespace udo
