// Auto-generated part of every op package that udogen generates for the DSP backend (V65, V66); regenerating rewrites this file.
//
// Between the DSP's functions and a kernel: factories that keep parameters, operations, and how arguments are bound.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "BackendUtils.hpp"
#include "CustomOpUtils.hpp"
#include "Executions.hpp"

namespace udo {

struct OpEntry;

/// What createOpFactory makes: the parameters of some operations, copied.
struct Factory {
  std::uint32_t count;
  Udo_Param_t* params;
};

/// What createOperation makes.  The DSP fills in its tensors before each execution.
struct Operation {
  const Factory* factory;
  void* infrastructure;
  std::uint32_t inputCount;
  Udo_TensorParam_t* inputs;
  std::uint32_t outputCount;
  Udo_TensorParam_t* outputs;
  void* state;
};

/// A number as a T; what does not fit becomes the nearest that does.
template <class T>
T fromDouble(double value) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(fromDouble<std::underlying_type_t<T>>(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value != 0.0;
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value);
  } else {
    using Limits = std::numeric_limits<T>;
    if (!(value > static_cast<double>(Limits::min()))) return std::isnan(value) ? T{} : Limits::min();
    return value < static_cast<double>(Limits::max()) ? static_cast<T>(value) : Limits::max();
  }
}

/// The tensors of an operation by their place, its parameters by name.
class Binding {
 public:
  explicit Binding(const Operation& operation) : operation_(operation) {}

  /// The view of an input, or of its default.
  template <class V>
  V input(std::size_t index, const RawTensor* otherwise = nullptr) const {
    const V found = index < operation_.inputCount ? V(&operation_.inputs[index]) : V();
    return found || otherwise == nullptr ? found : V(otherwise);
  }
  template <class V>
  V output(std::size_t index) const {
    return index < operation_.outputCount ? V(&operation_.outputs[index]) : V();
  }

  bool has(const char* param) const { return find(param) != nullptr; }

  /// A scalar parameter, or its default.
  template <class T>
  T scalar(const char* param, T otherwise) const {
    const Udo_Param_t* found = find(param);
    return found != nullptr && found->paramType == UDO_PARAMTYPE_SCALAR ? fromDouble<T>(number(found->scalarParam))
                                                                        : otherwise;
  }

  const char* string(const char* param, const char* otherwise) const;

  /// A tensor parameter, or its default.
  template <class V>
  V tensor(const char* param, const RawTensor* otherwise = nullptr) const {
    const Udo_Param_t* found = find(param);
    return V(found != nullptr && found->paramType == UDO_PARAMTYPE_TENSOR ? &found->tensorParam : otherwise);
  }

 private:
  const Udo_Param_t* find(const char* param) const;
  static double number(const Udo_ScalarParam_t& scalar);

  const Operation& operation_;
};

/// A tensor that lives in tables: the default of a tensor parameter or of an input.
RawTensor defaultTensor(Qnn_DataType_t type, const void* data, const std::uint32_t* dims, std::uint32_t rank);

/// The op of a library.
struct OpEntry {
  OpSpec spec;
  Counter* executions;
  Udo_QuantizationType_t* inputs;  // one for each input: NONE for floats, TF for the stored numbers of fixed point
  Udo_QuantizationType_t* outputs;
  Status (*create)(Operation& operation, Dsp& dsp);
  Status (*execute)(Operation& operation, Dsp& dsp);
  void (*release)(Operation& operation, Dsp& dsp);
};

/// The three functions of a kernel.
template <class Args, class State, Args (*Bind)(const Binding&), Status (*Create)(const Args&, State*&, Dsp&),
          Status (*Execute)(const Args&, State*, Dsp&), void (*Release)(State*, Dsp&)>
struct Kernel {
  static Status create(Operation& operation, Dsp& dsp) {
    State* state = nullptr;
    const Status status = Create(Bind(Binding(operation)), state, dsp);
    operation.state = state;
    if (status != ok) Release(state, dsp);
    return status;
  }

  static Status execute(Operation& operation, Dsp& dsp) {
    return Execute(Bind(Binding(operation)), static_cast<State*>(operation.state), dsp);
  }

  static void release(Operation& operation, Dsp& dsp) { Release(static_cast<State*>(operation.state), dsp); }
};

/// The op package interface of a library with one op.
void fillInterface(QnnOpPackage_Interface_t& interface, const char* package, const OpEntry& entry);

}  // namespace udo
