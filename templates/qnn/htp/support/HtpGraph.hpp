// The graph that rewrites and tiling see while it is prepared: nodes (ops and constants) and values (their outputs).  The
// handles own nothing, and are valid until the preparation ends.

#include <cstdint>
#include <initializer_list>

namespace udo {

inline QHPI_Shape toQhpi(const Shape& shape) {
  QHPI_Shape made = {};
  made.rank = static_cast<std::uint32_t>(shape.rank());
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) made.dims[axis] = shape[axis];
  return made;
}

// How many inputs a node has, without the one that marks parameters as ordered.
std::uint32_t countInputs(const QHPI_Op* node);

// Adds that one to the inputs of a new node if its op is in this package; returns how many were added.
std::uint32_t markOrder(const QHPI_Op* root, const char* qualifiedName, std::uint32_t count, QHPI_OpRef* inputs);

/// The step of an axis that must not be cut into tiles.
inline constexpr std::uint32_t whole = QHPI_DO_NOT_TILE;

class Node;

/// An output of a node: type, quantization and shape are known before it has data.
class Value {
 public:
  explicit Value(const QHPI_OpRef& ref) : ref_(ref) {}

  Shape shape() const { return shapeOf(definition().shape); }
  Quantization quantization() const;
  QHPI_OutputDef definition() const { return qhpi_op_output(ref_.op, ref_.output_number); }

  /// The node whose output it is.
  Node node() const;

  /// The part that begins at `start`.
  Value slice(const Shape& start, const Shape& extent) const {
    const QHPI_Shape from = toQhpi(start), part = toQhpi(extent);
    return Value(qhpi_op_slice(ref_, &from, &part));
  }

  const QHPI_OpRef& handle() const { return ref_; }

 private:
  QHPI_OpRef ref_;
};

/// An output of a new node.
class Definition {
 public:
  Definition(QHPI_Element_Type type, const Shape& shape, const Quantization& quantization = {})
      : definition_{type, {-quantization.offset, quantization.scale}, toQhpi(shape)} {}

  /// The same as a value, in another shape.
  Definition(const Value& like, const Shape& shape) : definition_(like.definition()) { definition_.shape = toQhpi(shape); }
  explicit Definition(const Value& like) : definition_(like.definition()) {}

  const QHPI_OutputDef& handle() const { return definition_; }

 private:
  QHPI_OutputDef definition_;
};

/// An op or a constant of the graph.
class Node {
 public:
  explicit Node(const QHPI_Op* op) : op_(op) {}

  /// Its name with its package, `Package::Op`; HTP's own ops are `<internal>`.
  const char* name() const { return qhpi_op_name(op_); }

  /// Its inputs, then its parameters in the order of the config; `isAbsent` for one that was left out and has no default.
  std::uint32_t inputs() const { return countInputs(op_); }
  Value input(std::uint32_t index) const { return Value(qhpi_op_input(op_, index)); }
  std::uint32_t outputs() const { return qhpi_op_num_outputs(op_); }
  Value output(std::uint32_t index) const { return Value(QHPI_OpRef{op_, index}); }
  std::uint32_t uses() const { return qhpi_op_num_uses(op_); }
  bool feeds(const char* name) const { return qhpi_op_producer_for(op_, name) != 0; }

  bool isAbsent() const { return udo::isAbsent(op_); }
  bool isConstant() const { return qhpi_op_is_constant(op_) != 0; }

  /// The elements of a constant; null for other nodes.
  template <class T>
  const T* data() const {
    return isConstant() ? static_cast<const T*>(qhpi_op_constant_data(op_)) : nullptr;
  }

  /// A new op, of this package (`Package::Op`) or of another; at most 32 inputs and 32 outputs.  Parameters of an op of
  /// this package are given in the order of the config.
  Node make(const char* name, std::initializer_list<Value> inputs, std::initializer_list<Definition> outputs) const {
    return make(name, inputs.begin(), static_cast<std::uint32_t>(inputs.size()), outputs.begin(),
                static_cast<std::uint32_t>(outputs.size()));
  }
  Node make(const char* name, const Value* inputs, std::uint32_t inputCount, const Definition* outputs,
            std::uint32_t outputCount) const;

  /// A new constant, with a copy of the elements.
  template <class T>
  Node constant(const Definition& definition, const T* elements) const {
    const std::size_t bytes = shapeOf(definition.handle().shape).count() * sizeof(T);
    return Node(qhpi_op_create_constant(op_, &definition.handle(), static_cast<std::uint32_t>(bytes), elements));
  }

  /// A node that ends the preparation of the graph with this message.
  Node refuse(const char* why) const { return Node(qhpi_op_create_error(op_, why)); }

  /// The bytes of TCM that a tile may take; 0 if HTP does not report them.
  std::uint32_t tileMemory() const {
    std::int32_t bytes = 0;
    return qhpi_option_int(op_, "tcm_size_for_tiling", &bytes) == QHPI_Success && bytes > 0
               ? static_cast<std::uint32_t>(bytes)
               : 0;
  }

  const QHPI_Op* handle() const { return op_; }

 private:
  const QHPI_Op* op_;
};

inline Node Value::node() const { return Node(ref_.op); }

inline Quantization Value::quantization() const {
  const QHPI_Quant_Parameters params = definition().quant_parameters;
  return Quantization{params.stepsize, -params.zero_offset};
}

/// Several values, concatenated along an axis.
Value concatenate(std::uint32_t axis, const Value* values, std::uint32_t count);

/// The steps of tiles of an elementwise op whose tensors are too large for TCM: pieces without gaps, each of which needs a
/// quarter of the memory that HTP has for tiles.
Shape elementwise(const Node& op);

// The same for an op that computes rows along an axis, each from the same row of `cut`, a bit for each such input.
constexpr std::int32_t noAxis = INT32_MIN;  // elements instead of rows
bool haveRows(const Node& op, std::uint32_t cut, std::int32_t axis);
Shape stepsOfRows(const Node& op, std::uint32_t cut, std::int32_t axis);
Node tileOfRows(const Node& op, const Shape& start, const Shape& extent, std::uint32_t cut, std::int32_t axis);

// The axis in a parameter, which the client may have left out.
std::int32_t axisOf(const Node& op, std::uint32_t input, std::int32_t usual);

/// The tile of an elementwise op: the same region of every input that has the shape of the output.  Along axes where an
/// input has one element, that element is kept; an input of another shape (a parameter) is passed whole.
Node sameTileOfInputs(const Node& op, const Shape& start, const Shape& extent);

}  // namespace udo
