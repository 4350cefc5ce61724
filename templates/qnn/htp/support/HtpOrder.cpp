// The order of parameters, for packages with an op that has several; HtpWithoutOrder.cpp is for others.
#if !defined(__hexagon__)
#include <atomic>
#include <deque>
#include <thread>
#endif

namespace udo {
#ifdef UDO_PREPARES

namespace {

// --- the content of a parameter -----------------------------------------------------------------------------------

// A hash.
class Print {
 public:
  // Bits of the last byte of each element may be flipped: signed integers of 8 or 16 bits arrive as unsigned ones.
  Print& add(const void* data, std::size_t bytes, unsigned char turned = 0, std::size_t element = 1) {
    const auto* const from = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < bytes; ++i) {
      const bool isLast = i % element == element - 1;
      value_ = (value_ ^ static_cast<unsigned char>(from[i] ^ (isLast ? turned : 0))) * 0x100000001b3u;
    }
    return *this;
  }
  Print& add(std::uint64_t number) { return add(&number, sizeof number); }
  std::uint64_t value() const { return value_ ^ value_ >> 29; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

Print printOf(std::uint32_t element, const std::uint32_t* dims, std::uint32_t rank) {
  Print print;
  print.add(element);
  bool ones = true;  // HTP adds leading ones
  for (std::uint32_t axis = 0; axis < rank; ++axis) {
    ones = ones && dims[axis] == 1;
    if (!ones) print.add(dims[axis]);
  }
  return print;
}

// What is known about a parameter: HTP sets only one byte of a Float32 for a boolean; a client may omit a tensor's
// data.
enum class Known : std::uint32_t { all, truth, shape };
constexpr std::size_t knownKinds = 3;

// One parameter, as the client passed it to validation.
struct Arrived {
  std::uint32_t param;
  Known known;
  std::uint64_t print;

  bool operator==(const Arrived& other) const {
    return param == other.param && known == other.known && print == other.print;
  }
};

std::size_t bytesOf(const Qnn_TensorV1_t& tensor) {
  std::size_t count = qhpi_element_type_size(elementOf(tensor.dataType));
  for (std::uint32_t axis = 0; axis < tensor.rank; ++axis) count *= tensor.dimensions[axis];
  return count;
}

std::size_t bytesOf(const QHPI_OutputDef& made) {
  std::size_t bytes = qhpi_element_type_size(made.type);
  for (std::uint32_t axis = 0; axis < made.shape.rank; ++axis) bytes *= made.shape.dims[axis];
  return bytes;
}

// Null for what is not a constant.
const void* dataOf(const QHPI_Op* node) {
  return qhpi_op_is_constant(node) != 0 ? qhpi_op_constant_data(node) : nullptr;
}

Arrived arrivedOf(std::uint32_t param, const Qnn_Param_t& given) {
  const bool isScalar = given.paramType == QNN_PARAMTYPE_SCALAR;
  const Qnn_TensorV1_t& tensor = given.tensorParam.v1;
  const Qnn_DataType_t type = isScalar ? given.scalarParam.dataType : tensor.dataType;
  if (isScalar && type == QNN_DATATYPE_BOOL_8) {
    const std::uint32_t truth = given.scalarParam.bool8Value != 0 ? 1 : 0;
    return {param, Known::truth, printOf(QHPI_Float32, nullptr, 0).add(truth).value()};
  }
  const std::uint32_t element = elementOf(type);
  Print print = printOf(element, isScalar ? nullptr : tensor.dimensions, isScalar ? 0 : tensor.rank);
  const std::size_t size = qhpi_element_type_size(element);
  const std::size_t bytes = isScalar ? size : bytesOf(tensor);
  const void* const data = isScalar ? &given.scalarParam.uint64Value : tensor.clientBuf.data;
  const bool isThere = isScalar || (tensor.memType == QNN_TENSORMEMTYPE_RAW && data != nullptr &&
                                    tensor.clientBuf.dataSize >= bytes);
  if (!isThere) return {param, Known::shape, print.value()};
  return {param, Known::all, print.add(data, bytes, zeroOffsetOf(type) != 0 ? 0x80 : 0, size).value()};
}

// The hashes of an input of a node, one for each value of Known.
struct Found {
  std::uint64_t prints[knownKinds];
};

Found foundOf(const QHPI_OpRef& from) {
  const QHPI_OutputDef made = qhpi_op_output(from.op, from.output_number);
  const Print print = printOf(made.type, made.shape.dims, made.shape.rank);
  Found found = {{0, 0, print.value()}};
  const void* const data = dataOf(from.op);
  if (data == nullptr) return found;
  const std::uint32_t truth = *static_cast<const unsigned char*>(data) != 0 ? 1 : 0;
  found.prints[static_cast<std::size_t>(Known::all)] = Print(print).add(data, bytesOf(made)).value();
  found.prints[static_cast<std::size_t>(Known::truth)] = Print(print).add(truth).value();
  return found;
}

// --- the nodes that were validated --------------------------------------------------------------------------------

// A node that was validated.
struct Validated {
  const OpSpec* op;
  std::vector<Arrived> params;
  std::thread::id thread;
  bool used;  // a node of a graph matched it
  bool old;   // of an earlier session, and used there
};

bool fits(const Validated& known, const std::vector<Found>& found) {
  if (known.params.size() != found.size()) return false;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Arrived& param = known.params[i];
    if (param.print != found[i].prints[static_cast<std::size_t>(param.known)]) return false;
  }
  return true;
}

// The position of each parameter of the config among those of a node; `nowhere` for one that was left out.
using Places = std::vector<std::size_t>;
constexpr std::size_t nowhere = SIZE_MAX;

Places placesOf(const OpSpec& spec, const std::vector<Arrived>& params) {
  Places places(spec.params.count, nowhere);
  for (std::size_t i = 0; i < params.size(); ++i) places[params[i].param] = i;
  return places;
}

// Whether both orders give a node the same parameters.
bool areAlike(const Places& one, const Places& other, const std::vector<Found>& found) {
  for (std::size_t param = 0; param < one.size(); ++param) {
    if (one[param] == other[param]) continue;
    if (one[param] == nowhere || other[param] == nowhere) return false;
    constexpr auto all = static_cast<std::size_t>(Known::all);
    const std::uint64_t print = found[one[param]].prints[all];
    if (print == 0 || print != found[other[param]].prints[all]) return false;
  }
  return true;
}

// The nodes that were validated last, up to `most`.
class ValidatedNodes {
 public:
  static constexpr std::size_t most = 4096;

  void add(const OpSpec& op, std::vector<Arrived> params) {
    const std::lock_guard<std::mutex> lock(mutex_);
    any_ = true;
    for (auto each = nodes_.begin(); each != nodes_.end(); ++each) {
      if (each->op != &op || !(each->params == params)) continue;
      nodes_.erase(each);
      break;
    }
    if (nodes_.size() == most) nodes_.pop_front();
    nodes_.push_back({&op, std::move(params), std::this_thread::get_id(), false, false});
  }

  void age() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Validated& each : nodes_) each.old = each.old || (each.used && each.thread == std::this_thread::get_id());
  }

  enum class Result { known, assumed, unknown, ambiguous };

  // Finds the places of a node's parameters.  If no node was ever validated, their order is assumed to be that of the
  // config.
  Result find(const OpSpec& op, const std::vector<Found>& found, Places& places) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const bool old : {false, true}) {
      bool any = false;
      for (Validated& each : nodes_) {
        if (each.op != &op || each.old != old || !fits(each, found)) continue;
        each.used = true;
        Places other = placesOf(op, each.params);
        if (any && !areAlike(places, other, found)) return Result::ambiguous;
        if (!any) places = std::move(other);
        any = true;
      }
      if (any) return Result::known;
    }
    return any_ ? Result::unknown : Result::assumed;
  }

 private:
  std::mutex mutex_;
  std::deque<Validated> nodes_;
  bool any_ = false;
};

// Never freed: a runtime may use it while the process ends.
ValidatedNodes& memory() {
  static auto* const only = new ValidatedNodes;
  return *only;
}

void warnOfOrder(const OpSpec& spec) {
  static std::atomic<bool> warned{false};
  if (warned.exchange(true)) return;
  log(QNN_LOG_LEVEL_WARN, "op %s: no node was validated, so parameters are taken in the order of the config: %s",
      spec.name, namesOf(spec).c_str());
}

// The constant for the default of a parameter; null if it has none.
const QHPI_Op* createDefault(const OpSpec& spec, std::size_t param, const QHPI_Op* node) {
  for (const ParamDefault& each : spec.defaults) {
    if (each.param != param) continue;
    const QHPI_OutputDef made = {elementOf(each.type), {zeroOffsetOf(each.type), 1.0f}, fillShape(each.dims, 4)};
    return qhpi_op_create_constant(node, &made, each.bytes, each.data);
  }
  return nullptr;
}

// --- nodes with all parameters in the order of the config ----------------------------------------------------------

// A kernel that reads by position allows no input more, as other nodes have it.  So one of the constants has this step,
// which means nothing for a type that is not quantized.
constexpr float markedStep = 1.00000012f;  // the next one after 1

bool canHaveMark(const ParamSpec& param) {
  for (const Qnn_DataType_t type : param.types) {
    if ((type & 0xff00) == 0x0300 || (type & 0xff00) == 0x0400) return false;  // fixed point
  }
  return true;
}

bool isMarked(const OpSpec& spec, const QHPI_Op* node) {
  if (qhpi_op_num_inputs(node) != spec.inputs.count + spec.params.count) return false;
  for (std::size_t param = 0; param < spec.params.count; ++param) {
    const QHPI_OpRef from = qhpi_op_input(node, static_cast<std::uint32_t>(spec.inputs.count + param));
    const float step = qhpi_op_output(from.op, from.output_number).quant_parameters.stepsize;
    if (step == markedStep && canHaveMark(spec.params.items[param])) return true;
  }
  return false;
}

// Marks one of a new node's inputs; without one that can have the mark, the new node counts as validated, so another
// order of equal values is refused.
void markOne(const OpSpec& spec, const QHPI_Op* root, std::vector<QHPI_OpRef>& inputs) {
  for (std::size_t param = 0; param < spec.params.count; ++param) {
    QHPI_OpRef& input = inputs[spec.inputs.count + param];
    const void* const data = dataOf(input.op);
    if (data == nullptr || !canHaveMark(spec.params.items[param])) continue;
    QHPI_OutputDef made = qhpi_op_output(input.op, input.output_number);
    made.quant_parameters.stepsize = markedStep;
    input = {qhpi_op_create_constant(root, &made, static_cast<std::uint32_t>(bytesOf(made)), data), 0};
    return;
  }
  std::vector<Arrived> params;
  for (std::uint32_t param = 0; param < spec.params.count; ++param) {
    const Found found = foundOf(inputs[spec.inputs.count + param]);
    const Known known = found.prints[0] != 0 ? Known::all : Known::shape;
    params.push_back({param, known, found.prints[static_cast<std::size_t>(known)]});
  }
  memory().add(spec, std::move(params));
}

}  // namespace

void rememberParameters(const OpSpec& spec, const Qnn_OpConfigV1_t& node) {
  std::vector<Arrived> params;
  for (std::uint32_t i = 0; i < node.numOfParams; ++i) {
    std::uint32_t param = 0;
    while (std::strcmp(spec.params.items[param].name, node.params[i].name) != 0) ++param;
    params.push_back(arrivedOf(param, node.params[i]));
  }
  memory().add(spec, std::move(params));
}

void beginSession() { memory().age(); }

const QHPI_Op* orderParameters(const OpEntry& op, const QHPI_Op* node, bool all) {
  const OpSpec& spec = *op.spec;
  const std::uint32_t inputs = static_cast<std::uint32_t>(spec.inputs.count);
  const std::uint32_t count = qhpi_op_num_inputs(node);
  if (count < inputs || (count == inputs && !all) || countInputs(node) != count) return node;
  if (count > inputs + spec.params.count) return node;  // no kernel takes it, which HTP reports
  if (all && isMarked(spec, node)) return node;
  std::vector<Found> found;
  for (std::uint32_t i = inputs; i < count; ++i) found.push_back(foundOf(qhpi_op_input(node, i)));
  Places places;
  switch (hasOrder(spec) && !found.empty() ? memory().find(spec, found, places) : ValidatedNodes::Result::assumed) {
    case ValidatedNodes::Result::known: break;
    case ValidatedNodes::Result::assumed:
      places.assign(spec.params.count, nowhere);
      for (std::size_t i = 0; i < found.size(); ++i) places[i] = i;
      if (hasOrder(spec) && !found.empty()) warnOfOrder(spec);
      break;
    case ValidatedNodes::Result::unknown:
      return refuse(spec, node,
                    "a node was not validated before its graph is finalized, and others were, so the order of its "
                    "parameters is not known (" +
                        namesOf(spec) + "): validate each node with the parameters that it is added with");
    case ValidatedNodes::Result::ambiguous:
      return refuse(spec, node,
                    "two nodes have the same values for parameters in two orders, or for different parameters, so which "
                    "is which is not known; give all parameters in the order of the config: " +
                        namesOf(spec));
  }
  const auto valueOf = [&](std::size_t param) {
    return qhpi_op_input(node, inputs + static_cast<std::uint32_t>(places[param]));
  };
  std::size_t given = all ? spec.params.count : 0;
  bool inOrder = !all || found.size() == given;
  for (std::size_t param = 0; param < places.size(); ++param) {
    if (places[param] == nowhere) continue;
    if (!isOfParam(spec.params.items[param], valueOf(param))) {
      return refuseParameter(spec, param, node);
    }
    inOrder = inOrder && places[param] == param;
    given = all ? given : param + 1;
  }
  if (inOrder) return node;
  std::vector<QHPI_OpRef> references;
  for (std::uint32_t i = 0; i < inputs; ++i) references.push_back(qhpi_op_input(node, i));
  for (std::size_t param = 0; param < given; ++param) {
    if (places[param] != nowhere) {
      references.push_back(valueOf(param));
      continue;
    }
    const QHPI_Op* const made = createDefault(spec, param, node);
    if (made == nullptr && all) {
      return refuse(spec, node, "parameter `" + std::string(spec.params.items[param].name) +
                                    "` is missing and has no default, and the kernel reads parameters by position");
    }
    references.push_back({made != nullptr ? made : createAbsent(spec, param, node), 0});
  }
  if (all) {
    markOne(spec, node, references);
  } else {
    references.push_back({createAbsent(spec, given, node), 0});
  }
  std::vector<QHPI_OutputDef> outputs;
  for (std::uint32_t i = 0; i < qhpi_op_num_outputs(node); ++i) outputs.push_back(qhpi_op_output(node, i));
  return qhpi_op_create(node, qhpi_op_name(node), static_cast<std::uint32_t>(references.size()), references.data(),
                        static_cast<std::uint32_t>(outputs.size()), outputs.data());
}

#else

void beginSession() {}

const QHPI_Op* orderParameters(const OpEntry&, const QHPI_Op* node, bool) { return node; }

#endif

}  // namespace udo
