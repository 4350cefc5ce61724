// Binds the arguments of an op's C++ function to a node of the backend; one operation for each node of a graph.

#include <cstdint>

namespace udo {

// A tensor made from generated tables: the default of a tensor parameter or of an input.
struct DefaultTensor {
  Qnn_Tensor_t raw;
  TensorFacts facts;
};
TensorFacts defaultFacts(const Qnn_Tensor_t& raw, const char* name);
Qnn_Tensor_t defaultTensor(Qnn_DataType_t type, const void* data, const std::uint32_t* dims, std::uint32_t rank);

// The names of an op's tensors in OpenCL, in the order of its spec.
struct Names {
  List<const char*> inputs;
  List<const char*> outputs;
  List<const char*> params;
};

// The parameters and tensors of one node, found by name and by position.
class Binding {
 public:
  Binding(const OpSpec& spec, const Qnn_OpConfigV1_t& config, const TensorFacts* facts)
      : spec_(spec), config_(config), facts_(facts) {}

  // The tensor at `index` of the spec; of an input that was left out, its default.
  template <class V>
  V input(std::size_t index, const TensorFacts* otherwise = nullptr) const {
    const V found = at<V>(positionOf(spec_.inputs, config_.numOfInputs, index), config_.numOfInputs, 0);
    return found ? found : V(otherwise);
  }
  template <class V>
  V output(std::size_t index) const {
    return at<V>(positionOf(spec_.outputs, config_.numOfOutputs, index), config_.numOfOutputs, config_.numOfInputs);
  }

  // The tensors that a repeated one at `index` of the spec covers.
  template <class V>
  Repeated<V> inputs(std::size_t index) const {
    return repeated<V>(spec_.inputs, config_.numOfInputs, index, 0);
  }
  template <class V>
  Repeated<V> outputs(std::size_t index) const {
    return repeated<V>(spec_.outputs, config_.numOfOutputs, index, config_.numOfInputs);
  }

  bool has(const char* param) const { return find(param) < config_.numOfParams; }

  // The value of a scalar parameter as a T.
  template <class T>
  T scalar(const char* param, T otherwise) const {
    const std::size_t found = find(param);
    if (found == config_.numOfParams || config_.params[found].paramType != QNN_PARAMTYPE_SCALAR) return otherwise;
    const Qnn_Scalar_t& number = config_.params[found].scalarParam;
    switch (static_cast<std::uint32_t>(number.dataType) & 0xff00) {
      case 0x0000:
      case 0x0300: return fromNumber<T>(signedOf(number));
      case 0x0200: return fromNumber<T>(realOf(number));
      default: return fromNumber<T>(unsignedOf(number));
    }
  }

  const char* string(const char* param, const char* otherwise) const;

  // A tensor parameter, or its default.
  template <class V>
  V tensor(const char* param, const TensorFacts* otherwise = nullptr) const {
    const std::size_t found = find(param);
    const bool given = found < config_.numOfParams && config_.params[found].paramType == QNN_PARAMTYPE_TENSOR;
    return V(given ? facts_ + config_.numOfInputs + config_.numOfOutputs + found : otherwise);
  }

 private:
  template <class V>
  V at(std::size_t index, std::size_t count, std::size_t base) const {
    return index < count ? V(facts_ + base + index) : V();
  }

  template <class V>
  Repeated<V> repeated(List<TensorSpec> specs, std::size_t count, std::size_t index, std::size_t base) const {
    if (count <= index) return Repeated<V>();
    const std::size_t surplus = count > specs.count ? count - specs.count : 0;
    return Repeated<V>(facts_ + base + index, surplus + 1);
  }

  std::size_t find(const char* param) const;
  static std::int64_t signedOf(const Qnn_Scalar_t& number);
  static std::uint64_t unsignedOf(const Qnn_Scalar_t& number);
  static double realOf(const Qnn_Scalar_t& number);

  const OpSpec& spec_;
  const Qnn_OpConfigV1_t& config_;
  const TensorFacts* facts_;
};

// One op of the package: its description, its OpenCL text, and the function that creates its kernels.
struct OpEntry : OpSpec {
  Counter* nodes;
  Names names;
  const char* text;  // of the op's .cl file
  const char* file;  // the name of that file, for messages of the compiler
  Status (*describe)(const Binding& node, Operation& operation);
};

// Calls the op's own function with its named arguments.
template <class Args, Args (*Bind)(const Binding&), Status (*Describe)(const Args&, Operation&)>
Status described(const Binding& node, Operation& operation) {
  return guarded([&] { return Describe(Bind(node), operation); });
}

// The OpenCL text that precedes the text of each op.
extern const char* const preludeText;

// What `getInfo` returns, with a hash of the kernels' texts.
QnnOpPackage_Info_t withHash(QnnOpPackage_Info_t package, List<OpEntry> ops);

}  // namespace udo
