// Parameters and inputs that were left out, for packages with an op that can have several parameters or lack an input, or
// with hooks; HtpWithoutAbsent.cpp is for others.

namespace udo {
namespace {

constexpr std::uint32_t absentElements = 4;
constexpr std::int32_t absent[absentElements] = {0x6f647561, 0x62736e74, -0x1d6e3c85, 0x5eed0c0d};

bool isAbsent(std::uint32_t type, const QHPI_Shape& shape, const void* data) {
  return type == QHPI_Int32 && shape.rank != 0 && shape.dims[shape.rank - 1] == absentElements && data != nullptr &&
         std::memcmp(data, absent, sizeof absent) == 0;
}

}  // namespace

bool isAbsent(const QHPI_Op* node) {
  const QHPI_OutputDef made = qhpi_op_is_constant(node) != 0 ? qhpi_op_output(node, 0) : QHPI_OutputDef{};
  return made.type == QHPI_Int32 && isAbsent(made.type, made.shape, qhpi_op_constant_data(node));
}

bool isAbsent(const QHPI_Tensor* tensor) {
  return qhpi_tensor_type(tensor) == QHPI_Int32 &&
         isAbsent(QHPI_Int32, qhpi_tensor_shape(tensor), qhpi_tensor_raw_data(tensor));
}

#if defined(__clang__)
#pragma clang optimize off  // once for each node
#endif
namespace {

// Shapes of constants have at least four dimensions.
QHPI_Shape fillShape(List<std::uint32_t> dims, std::uint32_t rank) {
  QHPI_Shape shape = {};
  const auto given = static_cast<std::uint32_t>(dims.count);
  shape.rank = given < rank ? rank : given;
  for (std::uint32_t axis = 0; axis < shape.rank; ++axis) {
    shape.dims[axis] = axis + given < shape.rank ? 1 : dims.items[axis + given - shape.rank];
  }
  return shape;
}

// The constant that replaces a parameter that was left out.
const QHPI_Op* createAbsent(const OpSpec& spec, std::size_t param, const QHPI_Op* root) {
  // In kernel records only parameters of rank 5 have another layout.
  bool wide = param < spec.params.count && spec.params.items[param].ranks.count != 0;
  for (std::size_t i = 0; wide && i < spec.params.items[param].ranks.count; ++i) {
    wide = spec.params.items[param].ranks.items[i] == 5;
  }
  constexpr std::uint32_t dims[] = {absentElements};
  const QHPI_OutputDef made = {QHPI_Int32, {0, 1.0f}, fillShape(dims, wide ? 5 : 4)};
  return qhpi_op_create_constant(root, &made, sizeof absent, absent);
}

}  // namespace

std::uint32_t countInputs(const QHPI_Op* node) {
  const std::uint32_t count = qhpi_op_num_inputs(node);
  return count != 0 && isAbsent(qhpi_op_input(node, count - 1).op) ? count - 1 : count;
}

std::uint32_t markOrder(const QHPI_Op* root, const char* qualifiedName, std::uint32_t count, QHPI_OpRef* inputs) {
  const OpEntry* const op = findOp(qualifiedName);
  if (op == nullptr || !hasOrder(*op->spec) || count <= op->spec->inputs.count) return 0;
  if (isAbsent(inputs[count - 1].op)) return 0;
  inputs[count] = {createAbsent(*op->spec, count - op->spec->inputs.count, root), 0};
  return 1;
}

#ifdef UDO_PREPARES

namespace {

bool isOfInput(const TensorSpec& spec, const QHPI_Op* node, std::uint32_t index) {
  const QHPI_OpRef from = qhpi_op_input(node, index);
  const std::uint32_t type = qhpi_op_output(from.op, from.output_number).type;
  for (const Qnn_DataType_t each : spec.types) {
    if (elementOf(each) == unsignedOf(type)) return true;
  }
  return udo::isAbsent(from.op);
}

// How many values of a node are inputs: as many as have types of inputs and leave enough for the mandatory parameters.
std::uint32_t inputsOf(const OpSpec& spec, const QHPI_Op* node) {
  const auto all = static_cast<std::uint32_t>(spec.inputs.count);
  const std::uint32_t count = qhpi_op_num_inputs(node);
  const auto least = static_cast<std::uint32_t>(fewestOf(spec.inputs));
  std::uint32_t fewest = 0;  // parameters, of which those before a mandatory one may be left out
  for (const ParamSpec& each : spec.params) fewest += each.mandatory ? 1 : 0;
  for (std::uint32_t inputs = all; inputs > least; --inputs) {
    bool fits = count >= inputs + fewest;
    for (std::uint32_t i = least; fits && i < inputs; ++i) fits = isOfInput(spec.inputs.items[i], node, i);
    if (fits) return inputs;
  }
  return least;
}

}  // namespace

const QHPI_Op* fillInputs(const OpEntry& op, const QHPI_Op* node) {
  const OpSpec& spec = *op.spec;
  const std::uint32_t inputs = canEnd(spec) ? inputsOf(spec, node) : static_cast<std::uint32_t>(spec.inputs.count);
  const std::uint32_t count = qhpi_op_num_inputs(node);
  if (inputs == spec.inputs.count || count < inputs) return node;
  std::vector<QHPI_OpRef> references;
  for (std::uint32_t i = 0; i < inputs; ++i) references.push_back(qhpi_op_input(node, i));
  const QHPI_OpRef missing = {createAbsent(spec, spec.params.count, node), 0};
  references.resize(spec.inputs.count, missing);
  for (std::uint32_t i = inputs; i < count; ++i) references.push_back(qhpi_op_input(node, i));
  std::vector<QHPI_OutputDef> outputs;
  for (std::uint32_t i = 0; i < qhpi_op_num_outputs(node); ++i) outputs.push_back(qhpi_op_output(node, i));
  return qhpi_op_create(node, qhpi_op_name(node), static_cast<std::uint32_t>(references.size()), references.data(),
                        static_cast<std::uint32_t>(outputs.size()), outputs.data());
}

#else

const QHPI_Op* fillInputs(const OpEntry&, const QHPI_Op* node) { return node; }

#endif

}  // namespace udo
#if defined(__clang__)
#pragma clang optimize on
#endif
