namespace udo {
namespace {

constexpr std::uint32_t mostValues = 32;

}  // namespace

Node Node::make(const char* name, const Value* inputs, std::uint32_t inputCount, const Definition* outputs,
                std::uint32_t outputCount) const {
  if (inputCount > mostValues || outputCount > mostValues) return refuse("a new op has more than 32 inputs or outputs");
  QHPI_OpRef references[mostValues + 1];
  QHPI_OutputDef definitions[mostValues];
  for (std::uint32_t i = 0; i < inputCount; ++i) references[i] = inputs[i].handle();
  for (std::uint32_t i = 0; i < outputCount; ++i) definitions[i] = outputs[i].handle();
  const std::uint32_t count = inputCount + markOrder(op_, name, inputCount, references);
  return Node(qhpi_op_create(op_, name, count, references, outputCount, definitions));
}

Value concatenate(std::uint32_t axis, const Value* values, std::uint32_t count) {
  if (count > mostValues) return Value({values[0].node().refuse("more than 32 values to concatenate").handle(), 0});
  QHPI_OpRef references[mostValues];
  for (std::uint32_t i = 0; i < count; ++i) references[i] = values[i].handle();
  return Value(qhpi_op_concat(axis, count, references));
}

Node sameTileOfInputs(const Node& op, const Shape& start, const Shape& extent) {
  const std::uint32_t count = qhpi_op_num_inputs(op.handle());
  if (count > mostValues || op.outputs() != 1) {
    return op.refuse("tiles of an elementwise op: at most 32 inputs, one output");
  }
  const Shape out = op.output(0).shape();
  QHPI_OpRef references[mostValues];
  for (std::uint32_t i = 0; i < count; ++i) {
    const Value input = op.input(i);
    const Shape shape = input.shape();
    bool follows = shape.rank() == out.rank() && !input.node().isAbsent();
    for (std::size_t axis = 0; follows && axis < out.rank(); ++axis) {
      follows = shape[axis] == out[axis] || shape[axis] == 1;
    }
    Shape from = start;
    Shape part = extent;
    bool cut = false;
    for (std::size_t axis = 0; follows && axis < out.rank(); ++axis) {
      if (shape[axis] != out[axis]) {
        from[axis] = 0;
        part[axis] = 1;
      }
      cut = cut || part[axis] != shape[axis];
    }
    references[i] = cut ? input.slice(from, part).handle() : input.handle();
  }
  const Definition made(op.output(0), extent);
  return Node(qhpi_op_create(op.handle(), op.name(), count, references, 1, &made.handle()));
}

}  // namespace udo
