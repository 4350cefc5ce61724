#if defined(__clang__)
#pragma clang optimize off  // they run once for each node, and take half a second to optimize for Hexagon
#endif
namespace udo {
namespace {

constexpr std::uint32_t mostValues = 32;

std::size_t bytesOf(const Value& value) {
  return value.shape().count() * qhpi_element_type_size(value.definition().type);
}

std::size_t from0(std::int32_t axis, std::size_t rank) {
  return static_cast<std::size_t>(axis < 0 && axis != noAxis ? axis + static_cast<std::int32_t>(rank) : axis);
}

// Whether an input has the shape of the output, except along the axis of rows.
bool hasRowsOf(const Shape& out, const Value& input, std::size_t rows) {
  const Shape shape = input.shape();
  bool same = shape.rank() == out.rank();
  for (std::size_t axis = 0; same && axis < out.rank(); ++axis) same = axis == rows || shape[axis] == out[axis];
  return same;
}

// The steps of tiles that fit: the first axes are cut, so that tiles have no gaps.
Shape stepsThatFit(const Node& op, std::size_t rows) {
  constexpr std::size_t usual = 4u << 20, linesOfBlock = 8;
  const std::size_t most = (op.tileMemory() != 0 ? op.tileMemory() : usual) / 4;
  Shape steps = op.output(0).shape();
  std::size_t bytes = bytesOf(op.output(0));
  for (std::uint32_t i = 0; i < op.inputs(); ++i) bytes += bytesOf(op.input(i));
  for (std::size_t axis = 0; axis < steps.rank(); ++axis) {
    const std::size_t each = bytes / (steps[axis] != 0 ? steps[axis] : 1);
    const bool fits = bytes <= most;
    if (fits || axis == rows || axis + 1 == steps.rank()) {
      steps[axis] = whole;
      continue;
    }
    const std::size_t lines = most > each && each != 0 ? most / each : 1;
    steps[axis] = static_cast<std::uint32_t>(lines > linesOfBlock ? lines / linesOfBlock * linesOfBlock : lines);
    bytes = each * lines;
  }
  return steps;
}

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

Shape elementwise(const Node& op) { return stepsThatFit(op, from0(noAxis, 0)); }

bool haveRows(const Node& op, std::uint32_t cut, std::int32_t axis) {
  const Shape out = op.output(0).shape();
  const std::size_t rows = from0(axis, out.rank());
  bool can = op.inputs() < mostValues && (axis == noAxis || rows < out.rank());
  for (std::uint32_t i = 0; can && i < op.inputs(); ++i) {
    can = ((cut >> i & 1u) == 0 || op.input(i).node().isAbsent() || hasRowsOf(out, op.input(i), rows));
  }
  return can;
}

Shape stepsOfRows(const Node& op, std::uint32_t cut, std::int32_t axis) {
  Shape steps = op.output(0).shape();
  if (haveRows(op, cut, axis)) return stepsThatFit(op, from0(axis, steps.rank()));
  for (std::size_t i = 0; i < steps.rank(); ++i) steps[i] = whole;
  return steps;
}

Node tileOfRows(const Node& op, const Shape& start, const Shape& extent, std::uint32_t cut, std::int32_t axis) {
  const std::uint32_t count = qhpi_op_num_inputs(op.handle());
  if (count > mostValues) return op.refuse("tiles of an op: at most 32 inputs");
  const std::size_t rows = from0(axis, extent.rank());
  QHPI_OpRef references[mostValues];
  for (std::uint32_t i = 0; i < count; ++i) {
    const Value input = op.input(i);
    Shape part = extent;
    if (rows < part.rank()) part[rows] = input.shape()[rows];
    references[i] = ((cut >> i & 1u) != 0 && !input.node().isAbsent() ? input.slice(start, part) : input).handle();
  }
  const Definition made(op.output(0), extent);
  return Node(qhpi_op_create(op.handle(), op.name(), count, references, 1, &made.handle()));
}

std::int32_t axisOf(const Node& op, std::uint32_t input, std::int32_t usual) {
  const std::int32_t* const axis = input < op.inputs() ? op.input(input).node().data<std::int32_t>() : nullptr;
  return axis != nullptr ? *axis : usual;
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
#if defined(__clang__)
#pragma clang optimize on
#endif
