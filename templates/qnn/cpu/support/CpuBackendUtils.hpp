// Binds the arguments of a kernel to a node of the runtime; one instance for each node of a graph.

#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace udo {

// A tensor parameter whose integers were converted.
struct ConvertedParam {
  QnnCpuOpPackage_Param_t param;
  RawTensor tensor;
  std::vector<char> data;
};

// What validation found about a node.  The runtime leaves counts that are zero uninitialised in the node, and does not
// report which tensors were left out or are quantized.
struct NodeFacts {
  std::vector<TensorFacts> inputs;
  std::vector<TensorFacts> outputs;
  std::vector<TensorFacts> params;
  std::vector<Qnn_DataType_t> types;  // of inputs and outputs, to distinguish nodes of one name
  std::vector<std::uint32_t> dims;  // for each tensor its rank, then its dimensions
  std::vector<const std::uint32_t*> places;  // the addresses at which the runtime keeps the dims of each tensor
  std::uint64_t number = 0;                  // of the validation
  std::vector<std::unique_ptr<ConvertedParam>> converted;
  std::vector<QnnCpuOpPackage_Param_t*> given;  // the runtime's parameters, or converted ones
};

// Fixed-point tensors that a kernel sees as floats: each has a copy of floats, filled before the kernel runs (inputs
// and parameters) or written back after it (outputs).  Other tensors must be quantized as a whole: a kernel sees one
// scale and one offset.
class FloatCopies {
 public:
  // Adds a tensor of floats for a fixed-point tensor, with the same shape.
  RawTensor* add(const RawTensor& stored, bool isOutput);

  // The tensors of a repeated one, with fixed-point tensors replaced.
  RawTensor* const* add(RawTensor* const* first, std::size_t count, bool areOutputs);

  // Checks a tensor whose stored numbers the kernel sees.
  void check(const char* name, const RawTensor* tensor, bool quantized);

  Status dequantize() { return convert(false); }
  Status quantize() { return convert(true); }

 private:
  Status convert(bool outputs);

  const char* perChannel_ = nullptr;  // the tensor that is not quantized as a whole
  struct Copy {
    const RawTensor* stored;
    RawTensor floats;
    bool isOutput;
    std::vector<float> values;
  };
  std::vector<std::unique_ptr<Copy>> copies_;
  std::vector<std::unique_ptr<RawTensor*[]>> lists_;
};

template <class V>
inline constexpr bool seesFloats = std::is_same_v<V, Input<float>> || std::is_same_v<V, Output<float>>;

// The parameters and tensors of one node, found by name and by position.
class Binding {
 public:
  Binding(const OpSpec& spec, const QnnCpuOpPackage_Node_t& node, const NodeFacts& facts, FloatCopies& copies)
      : spec_(spec), node_(node), facts_(facts), copies_(copies) {}

  // The view of the tensor at `index` of the spec; of an input that was left out, its default.
  template <class V>
  V input(std::size_t index, const RawTensor* otherwise = nullptr) const {
    const V found = view<V>(node_.inputs, facts_.inputs, spec_.inputs, index);
    return found || otherwise == nullptr ? found : V(otherwise, false);
  }
  template <class V>
  V output(std::size_t index) const {
    return view<V>(node_.outputs, facts_.outputs, spec_.outputs, index);
  }

  // The views of the tensors that a repeated one at `index` of the spec covers.
  template <class V>
  Repeated<V> inputs(std::size_t index) const {
    return repeated<V>(node_.inputs, facts_.inputs, spec_.inputs, index);
  }
  template <class V>
  Repeated<V> outputs(std::size_t index) const {
    return repeated<V>(node_.outputs, facts_.outputs, spec_.outputs, index);
  }

  bool has(const char* param) const { return find(param) != nullptr; }

  // The value of a scalar parameter as a T; the runtime delivers each as a double.
  template <class T>
  T scalar(const char* param, T otherwise) const {
    const QnnCpuOpPackage_Param_t* found = find(param);
    return found != nullptr && found->type == QNN_CPU_PARAMTYPE_SCALAR ? fromNumber<T>(found->scalarParam) : otherwise;
  }

  const char* string(const char* param, const char* otherwise) const;

  // The view of a tensor parameter, or of its default.
  template <class V>
  V tensor(const char* param, const RawTensor* otherwise = nullptr) const {
    std::size_t at = 0;
    const QnnCpuOpPackage_Param_t* found = find(param, &at);
    const bool given = found != nullptr && found->type == QNN_CPU_PARAMTYPE_TENSOR;
    return given ? view<V>(param, found->tensorParam, facts_.params[at].quantized) : V(otherwise, false);
  }

 private:
  template <class V>
  V view(const char* name, const RawTensor* tensor, bool quantized) const {
    if constexpr (seesFloats<V>) {
      const bool isFloat = tensor == nullptr || tensor->dataType == QNN_CPU_DATATYPE_FLOAT_32;
      if (!isFloat) return V(copies_.add(*tensor, std::is_same_v<V, Output<float>>), false);
    }
    copies_.check(name, tensor, quantized);
    return V(tensor, quantized);
  }

  template <class V>
  V view(RawTensor* const* tensors, const std::vector<TensorFacts>& facts, List<TensorSpec> specs,
         std::size_t index) const {
    const std::size_t at = positionOf(specs, facts.size(), index);
    if (at >= facts.size() || facts[at].omitted) return V();
    return view<V>(specs.items[index].name, tensors[at], facts[at].quantized);
  }

  template <class V>
  Repeated<V> repeated(RawTensor* const* tensors, const std::vector<TensorFacts>& facts, List<TensorSpec> specs,
                       std::size_t index) const {
    if (facts.size() <= index) return Repeated<V>();
    // Optional tensors after it may be left out: then it counts as one, as in validation.
    const std::size_t count = 1 + (facts.size() > specs.count ? facts.size() - specs.count : 0);
    RawTensor* const* first = tensors + index;
    if constexpr (seesFloats<V>) {
      first = copies_.add(first, count, std::is_same_v<V, Output<float>>);
    } else {
      for (std::size_t i = 0; i < count; ++i) {
        copies_.check(specs.items[index].name, first[i], facts[index + i].quantized);
      }
    }
    return Repeated<V>(first, facts.data() + index, count);
  }

  const QnnCpuOpPackage_Param_t* find(const char* param, std::size_t* at = nullptr) const;

  const OpSpec& spec_;
  const QnnCpuOpPackage_Node_t& node_;
  const NodeFacts& facts_;
  FloatCopies& copies_;
};

// A tensor made from generated tables: the default of a tensor parameter or of an input.
RawTensor defaultTensor(Qnn_DataType_t type, const void* data, const std::uint32_t* dims, std::uint32_t rank);

struct Instance;
// How an instance of an op is created.
struct OpFacts {
  Status (*create)(const OpEntry& entry, const QnnCpuOpPackage_Node_t& node, NodeFacts facts, Instance*& instance);
};

// One op of the package: its description, and its kernel.
struct OpEntry : OpSpec {
  Counter* executions;
  void (*describe)(OpFacts& facts);
};

// One node of a graph; `userData` of its op points to it.
struct Instance {
  QnnCpuOpPackage_OpImpl_t impl = {nullptr, nullptr};
  const OpEntry* entry = nullptr;
  void (*release)(Instance* self) = nullptr;
};

// --- the code around a kernel, compiled with its file ---------------------------------------------------------------

namespace glue {

template <class Op>
struct Bound : Instance {
  NodeFacts facts;  // declared before args, whose views point to it and to the copies
  FloatCopies copies;
  typename Op::Args args;
  StateOf<Op> state{};
  Bound(const OpSpec& spec, const QnnCpuOpPackage_Node_t& node, NodeFacts seen)
      : facts(std::move(seen)), args(Op::bind(Binding(spec, node, facts, copies))) {}
};

template <class Op>
void release(Instance* self) {
  auto* bound = static_cast<Bound<Op>*>(self);
  const Running running(bound->entry->name);
  delete bound;
}

template <class Op>
Status run(void* userData) {
  auto* bound = static_cast<Bound<Op>*>(static_cast<Instance*>(userData));
  const Running running(bound->entry->name);
  ++*bound->entry->executions;
  Status status = bound->copies.dequantize();
  if (status == ok) status = guarded([&] { return callExecute(bound->args, bound->state); });
  return status == ok ? bound->copies.quantize() : status;
}

template <class Op>
Status create(const OpEntry& entry, const QnnCpuOpPackage_Node_t& node, NodeFacts facts, Instance*& instance) {
  const Running running(entry.name);
  Bound<Op>* bound = nullptr;
  Status status = guarded([&] {
    bound = new Bound<Op>(entry, node, std::move(facts));
    return ok;
  });
  if (status != ok) return status;
  bound->entry = &entry;
  bound->release = release<Op>;
  status = bound->copies.dequantize();  // parameters have their data already
  if (status == ok) status = guarded([&] { return callPrepare(bound->args, bound->state); });
  if (status != ok) {
    release<Op>(bound);
    return status;
  }
  bound->impl = {run<Op>, static_cast<Instance*>(bound)};
  instance = bound;
  return ok;
}

}  // namespace glue

// Fills in what a kernel's file defines.
template <class Op>
void describe(OpFacts& facts) {
  glue::checkKernel<Op>();
  facts.create = glue::create<Op>;
}

}  // namespace udo
