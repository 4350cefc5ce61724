// Binds the arguments of a kernel to the tensors that QHPI passes.

#include <cstdint>

namespace udo {

// The element type that QHPI delivers for a data type: signed integers of 8 and 16 bits are unsigned, with an offset.
QHPI_Element_Type elementOf(Qnn_DataType_t type);

// The offset of these signed integers; 0 for all other types.
std::int32_t zeroOffsetOf(Qnn_DataType_t type);

// The shape of a default, with leading ones as HTP delivers it.
template <std::size_t N>
Shape shapeOf(const std::uint32_t (&dims)[N]) {
  constexpr std::size_t rank = N < 4 ? 4 : N;
  std::uint32_t filled[rank] = {};
  for (std::size_t axis = 0; axis < rank; ++axis) filled[axis] = axis + N < rank ? 1 : dims[axis + N - rank];
  return Shape(filled, rank);
}

// The tensors of one call: inputs, then the parameters in the order of the config.
class Binding {
 public:
  Binding(const OpSpec& spec, std::uint32_t outputs, QHPI_Tensor** output, std::uint32_t inputs,
          const QHPI_Tensor* const* input)
      : spec_(spec), outputCount_(outputs), output_(output), inputCount_(inputs), input_(input) {}

  template <class V>
  V input(std::size_t index) const {
    return input(index, V());
  }
  // An input, or `otherwise` if the node has none.
  template <class V>
  V input(std::size_t index, const V& otherwise) const {
    return hasInput(index) ? V(input_[index]) : otherwise;
  }
  template <class V>
  V output(std::size_t index) const {
    return index < outputCount_ ? V(output_[index]) : V();
  }

  bool has(std::size_t param) const;

  // A scalar parameter, or its default.
  template <class T>
  T scalar(std::size_t param, T otherwise) const {
    return has(param) ? fromNumber<T>(number(param)) : otherwise;
  }

  // A tensor parameter, or its default.
  template <class V>
  V tensor(std::size_t param, const V& otherwise = V()) const {
    return has(param) ? V(input_[spec_.inputs.count + param]) : otherwise;
  }

 private:
  bool hasInput(std::size_t index) const;
  double number(std::size_t param) const;

  const OpSpec& spec_;
  std::uint32_t outputCount_;
  QHPI_Tensor** output_;
  std::uint32_t inputCount_;
  const QHPI_Tensor* const* input_;
};

}  // namespace udo
