// Connects the DSP with a kernel: factories that keep parameters, operations, and the binding of arguments.

#include <cstdint>
#include <new>
#include <type_traits>

namespace udo {

struct OpEntry;

// The result of createOpFactory: a copy of the parameters that one or more operations use.
struct Factory {
  std::uint32_t count;
  Udo_Param_t* params;
};

// The result of createOperation.  The DSP fills in its tensors before each execution.
struct Operation {
  const Factory* factory;
  void* infrastructure;
  std::uint32_t inputCount;
  Udo_TensorParam_t* inputs;
  std::uint32_t outputCount;
  Udo_TensorParam_t* outputs;
  void* state;             // of the kernel; null if it has none
  std::uint64_t prepared;  // the fingerprint of the tensors for which the state was prepared; 0: not prepared
};

// The tensors of an operation by position, its parameters by name.
class Binding {
 public:
  explicit Binding(const Operation& operation) : operation_(operation) {}

  // The view of an input, or of its default.
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

  // A scalar parameter, or its default.
  template <class T>
  T scalar(const char* param, T otherwise) const {
    const Udo_Param_t* found = find(param);
    return found != nullptr && found->paramType == UDO_PARAMTYPE_SCALAR ? fromNumber<T>(number(found->scalarParam))
                                                                        : otherwise;
  }

  const char* string(const char* param, const char* otherwise) const;

  // A tensor parameter, or its default.
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

// A tensor made from generated tables: the default of a tensor parameter or of an input.
RawTensor defaultTensor(Qnn_DataType_t type, const void* data, const std::uint32_t* dims, std::uint32_t rank);

// The functions of a kernel, for the tables.
struct OpFacts {
  Status (*create)(Operation& operation, const Udo_HexNNv2GlobalInfra_t& functions);
  Status (*execute)(Operation& operation, Dsp& dsp);
  void (*release)(Operation& operation, const Udo_HexNNv2GlobalInfra_t& functions);
};

// The op of a library.
struct OpEntry : OpSpec {
  Counter* executions;
  Udo_QuantizationType_t* inputKinds;  // one for each input: NONE for floats, TF for the stored numbers of fixed point
  Udo_QuantizationType_t* outputKinds;
  void (*describe)(OpFacts& facts);
};

// --- the code around a kernel, compiled with its file ----------------------------------------------------------------

namespace glue {

// A hash of the shapes and ranges of all tensors; never 0.
std::uint64_t fingerprint(const Operation& operation);

template <class Op>
inline constexpr bool hasState = !std::is_same_v<StateOf<Op>, Nothing>;

template <class Op>
Status create(Operation& operation, const Udo_HexNNv2GlobalInfra_t& functions) {
  if constexpr (hasState<Op>) {
    static_assert(alignof(StateOf<Op>) <= 128, "a State begins at a multiple of 128 bytes");
    operation.state = functions.udoMemalign(128, sizeof(StateOf<Op>));
    if (operation.state == nullptr) return error("out of memory for its State");
    new (operation.state) StateOf<Op>{};
  }
  return ok;
}

// Tensors are not known before the first execution, and may change later: then the state is prepared again.
template <class Op>
Status run(Operation& operation, Dsp& dsp) {
  const typename Op::Args args = Op::bind(Binding(operation));
  if constexpr (hasState<Op>) {
    auto& state = *static_cast<StateOf<Op>*>(operation.state);
    const std::uint64_t now = fingerprint(operation);
    if (operation.prepared != now) {
      if (operation.prepared != 0) state = StateOf<Op>{};
      operation.prepared = 0;
      const Status status = callPrepare(args, state, dsp);
      if (status != ok) return status;
      operation.prepared = now;
    }
    return callExecute(args, state, dsp);
  } else {
    Nothing nothing;
    return callExecute(args, nothing, dsp);
  }
}

template <class Op>
void release(Operation& operation, const Udo_HexNNv2GlobalInfra_t& functions) {
  if constexpr (hasState<Op>) {
    static_cast<StateOf<Op>*>(operation.state)->~StateOf<Op>();
    functions.udoFree(operation.state);
  }
}

}  // namespace glue

// Fills in what a kernel's file defines.
template <class Op>
void describe(OpFacts& facts) {
  glue::checkKernel<Op, Dsp>();
  facts = {glue::create<Op>, glue::run<Op>, glue::release<Op>};
}

// The op package interface of a library with one op.
void fillInterface(QnnOpPackage_Interface_t& interface, const char* package, const OpEntry& entry);

}  // namespace udo
