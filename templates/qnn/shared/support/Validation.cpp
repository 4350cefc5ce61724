// Graphs are prepared on the host; the DSP only executes them.
#if !defined(__hexagon__)
#include <string>

namespace udo {

long long integerAt(Qnn_DataType_t type, const void* data, std::size_t index) {
  const unsigned bits = bitsOf(type) < 64 ? bitsOf(type) : 64;  // a client may pass any number as a type
  std::uint64_t stored = 0;
  std::memcpy(&stored, static_cast<const char*>(data) + index * bits / 8, bits / 8);
  const bool isNegative = (type & 0xff00) == 0x0000 && bits - 1 < 63 && stored >> (bits - 1) != 0;
  return static_cast<long long>(isNegative ? stored | ~0ull << bits : stored);
}

bool fits(long long value, Qnn_DataType_t type) {
  const bool isSigned = (type & 0xff00) == 0x0000;
  const unsigned bits = type == QNN_DATATYPE_BOOL_8 ? 1 : bitsOf(type);
  if (bits == 64) return isSigned || value >= 0;
  return isSigned ? value >= -(1ll << (bits - 1)) && value < 1ll << (bits - 1) : value >= 0 && value < 1ll << bits;
}

bool isInteger(Qnn_DataType_t type) {
  return (type & 0xff00) == 0x0000 || (type & 0xff00) == 0x0100 || type == QNN_DATATYPE_BOOL_8;
}

namespace {

std::string nameOf(Qnn_DataType_t type) {
  constexpr const char* families[] = {"INT_", "UINT_", "FLOAT_", "SFIXED_POINT_", "UFIXED_POINT_", "BOOL_"};
  const auto code = static_cast<std::uint32_t>(type);
  if (type == textType) return "STRING";
  if (code == 0x0226) return "BFLOAT_16";
  if (code >> 8 > 5 || bitsOf(type) > 64) return "of an unknown data type";
  return families[code >> 8] + std::to_string(bitsOf(type));
}

// The first element that does not fit into a type is `misfit`.
bool fit(Qnn_DataType_t into, Qnn_DataType_t type, const void* data, std::size_t count, long long& misfit) {
  for (std::size_t i = 0; i < count; ++i) {
    misfit = integerAt(type, data, i);
    if (!fits(misfit, into)) return false;
  }
  return true;
}

std::string listOf(List<Qnn_DataType_t> types) {
  std::string text;
  for (const Qnn_DataType_t type : types) text += (text.empty() ? "" : " or ") + nameOf(type);
  return text;
}

std::string listOf(List<std::uint32_t> ranks) {
  std::string text;
  for (const std::uint32_t rank : ranks) text += (text.empty() ? "" : " or ") + std::to_string(rank);
  return text;
}

template <class T>
bool contains(List<T> list, T item) {
  for (const T& each : list) {
    if (each == item) return true;
  }
  return false;
}

bool accepts(List<Qnn_DataType_t> types, Qnn_DataType_t given, const ValidationRules& rules) {
  if (contains(types, given)) return true;
  for (const Qnn_DataType_t type : types) {
    if (rules.alike != nullptr && rules.alike(given, type)) return true;
  }
  return false;
}

// How a parameter of one of these types may be given as another type.
enum class Given { asNamed, converted, tooLarge, otherwise };

Given givenAs(List<Qnn_DataType_t> types, Qnn_DataType_t type, const void* data, std::size_t count, bool scalar,
              const ValidationRules& rules, long long& misfit) {
  if (contains(types, type)) return Given::asNamed;
  Given found = Given::otherwise;
  for (const Qnn_DataType_t each : types) {
    if (rules.converts == nullptr || !rules.converts(type, each, scalar)) continue;
    if (!isInteger(type) || !isInteger(each) || data == nullptr || fit(each, type, data, count, misfit)) {
      return Given::converted;
    }
    found = Given::tooLarge;
  }
  return found;
}

#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
Status invalid(const char* format, ...) {
  std::va_list list;
  va_start(list, format);
  errorList(format, list);
  va_end(list);
  return QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE;
}

std::size_t countOf(const Qnn_TensorV1_t& tensor) {
  std::size_t count = 1;
  for (std::uint32_t axis = 0; axis < tensor.rank; ++axis) count *= tensor.dimensions[axis];
  return count;
}

// The data that the client gave with the graph; null if it comes with an execution.
const void* dataOf(const Qnn_TensorV1_t& tensor) {
  const bool raw = tensor.type == QNN_TENSOR_TYPE_STATIC && tensor.memType == QNN_TENSORMEMTYPE_RAW;
  return raw ? tensor.clientBuf.data : nullptr;
}

Status validateTensor(const char* role, std::size_t number, const TensorSpec& spec, const Qnn_Tensor_t& tensor,
                      const ValidationRules& rules) {
  if (isLeftOut(tensor)) {
    if (!spec.mandatory && !rules.everyInput) return ok;
    return invalid("%s %zu `%s` is mandatory%s, but a NULL tensor was given", role, number, spec.name,
                   spec.mandatory ? "" : " on this backend");
  }
  const Qnn_TensorV1_t& given = common(tensor);
  if (!accepts(spec.types, given.dataType, rules)) {
    refuseType(spec.name, spec.types);
    return invalid("%s %zu `%s` is %s (0x%04x); it must be %s", role, number, spec.name, nameOf(given.dataType).c_str(),
                   static_cast<unsigned>(given.dataType), listOf(spec.types).c_str());
  }
  if (spec.ranks.count != 0 && !contains(spec.ranks, given.rank)) {
    refuseRank(spec.name, spec.ranks);
    return invalid("%s %zu `%s` has rank %u; it must be %s", role, number, spec.name, given.rank,
                   listOf(spec.ranks).c_str());
  }
  if (spec.only != nullptr && !spec.only->is(*spec.only, given.dataType, dataOf(given), countOf(given))) {
    return invalid("%s %zu `%s` is not its default, and no other value is supported; leave it out", role, number,
                   spec.name);
  }
  return ok;
}

Status validateTensors(const char* role, List<TensorSpec> specs, const Qnn_Tensor_t* tensors, std::size_t count,
                       const ValidationRules& rules) {
  const std::size_t mandatory = fewestOf(specs);
  bool repeats = false;
  for (const TensorSpec& each : specs) repeats = repeats || each.repeated;
  if (count < mandatory || (count > specs.count && !repeats)) {
    const bool fixed = mandatory == specs.count && !repeats;
    const bool lacks = count < mandatory;
    refuseOp();
    return invalid("has %zu %ss; it must have %s%zu%s%s%s", count, role,
                   fixed ? "" : (lacks ? "at least " : "at most "), lacks ? mandatory : specs.count,
                   lacks ? ": `" : "", lacks ? specs.items[count].name : "", lacks ? "` is missing" : "");
  }
  const std::size_t extra = count > specs.count ? count - specs.count : 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < specs.count && at < count; ++i) {
    const std::size_t times = specs.items[i].repeated ? extra + 1 : 1;
    for (std::size_t k = 0; k < times && at < count; ++k, ++at) {
      const Status status = validateTensor(role, at, specs.items[i], tensors[at], rules);
      if (status != ok) return status;
    }
  }
  return ok;
}

Status validateParam(const ParamSpec& spec, const Qnn_Param_t& param, const ValidationRules& rules) {
  const bool scalar = param.paramType == QNN_PARAMTYPE_SCALAR;
  const Qnn_TensorV1_t& tensor = common(param.tensorParam);
  const Qnn_DataType_t type = scalar ? param.scalarParam.dataType : tensor.dataType;
  const void* const data = scalar ? &param.scalarParam.int64Value : dataOf(tensor);  // its members share one address
  long long misfit = 0;
  const Given given = givenAs(spec.types, type, data, scalar ? 1 : countOf(tensor), scalar, rules, misfit);
  if (given == Given::tooLarge) {
    return invalid("parameter `%s` is %lld, which does not fit into %s", spec.name, misfit, listOf(spec.types).c_str());
  }
  if (given == Given::otherwise) {
    refuseType(spec.name, spec.types);
    return invalid("parameter `%s` is %s (0x%04x); it must be %s", spec.name, nameOf(type).c_str(),
                   static_cast<unsigned>(type), listOf(spec.types).c_str());
  }
  if (scalar != spec.scalar && type != textType) {  // a text is always passed as a scalar
    refuseOp();
    return invalid("parameter `%s` must be a %s", spec.name, spec.scalar ? "scalar" : "tensor");
  }
  if (!scalar && spec.ranks.count != 0 && !contains(spec.ranks, common(param.tensorParam).rank)) {
    refuseRank(spec.name, spec.ranks);
    return invalid("parameter `%s` has rank %u; it must be %s", spec.name, common(param.tensorParam).rank,
                   listOf(spec.ranks).c_str());
  }
  if (scalar && spec.enumerators != 0 && type != textType) {
    const long long value = integerAt(type, data, 0);
    if (value < 0 || value >= static_cast<long long>(spec.enumerators)) {
      return invalid("parameter `%s` is %lld; its enumeration has only 0 … %u", spec.name, value,
                     spec.enumerators - 1);
    }
  }
  const bool isReadable = scalar || type != textType;
  if (spec.only != nullptr && !(isReadable && spec.only->is(*spec.only, type, data, scalar ? 1 : countOf(tensor)))) {
    return invalid("parameter `%s` is not its default, and no other value is supported; leave it out", spec.name);
  }
  return ok;
}

Status validateParams(List<ParamSpec> specs, const Qnn_Param_t* params, std::size_t count,
                      const ValidationRules& rules) {
  for (std::size_t i = 0; i < count; ++i) {
    if (params[i].name == nullptr) return invalid("parameter %zu has no name", i);
    for (std::size_t k = 0; k < i; ++k) {
      if (std::strcmp(params[k].name, params[i].name) == 0) return invalid("parameter `%s` is given twice", params[i].name);
    }
    const ParamSpec* const spec = find(specs, params[i].name);
    if (spec == nullptr) {
      refuseOp();
      return invalid("has no parameter `%s`", params[i].name);
    }
    const Status status = validateParam(*spec, params[i], rules);
    if (status != ok) return status;
  }
  for (const ParamSpec& each : specs) {
    bool given = !each.mandatory;
    for (std::size_t i = 0; i < count && !given; ++i) given = std::strcmp(each.name, params[i].name) == 0;
    if (!given) {
      refuseOp();
      return invalid("lacks the mandatory parameter `%s`", each.name);
    }
  }
  return ok;
}

}  // namespace

Status validateConfig(const OpSpec& spec, const Qnn_OpConfigV1_t& config, const ValidationRules& rules) {
  const Running running(spec.name);
  accept();
  Status status = validateTensors("input", spec.inputs, config.inputTensors, config.numOfInputs, rules);
  if (status == ok) status = validateTensors("output", spec.outputs, config.outputTensors, config.numOfOutputs, rules);
  if (status == ok) status = validateParams(spec.params, config.params, config.numOfParams, rules);
  return status;
}

bool isFor(const char* package, const Qnn_OpConfig_t& config) {
  if (config.version != QNN_OPCONFIG_VERSION_1) return false;
  const Qnn_OpConfigV1_t& node = config.v1;
  if (node.packageName != nullptr && std::strcmp(node.packageName, package) == 0) return true;
  invalid("node `%s` is for package `%s`, and this is package %s", node.name == nullptr ? "" : node.name,
          node.packageName == nullptr ? "" : node.packageName, package);
  return false;
}

Status noSuchOp(const QnnOpPackage_Info_t& package, const char* op) {
  accept();
  std::string known;
  for (std::uint32_t i = 0; i < package.numOperations; ++i) known += (i == 0 ? "" : ", ") + std::string(package.operationNames[i]);
  return invalid("package %s has no op `%s`; it has %s", package.packageName, op == nullptr ? "" : op, known.c_str());
}

}  // namespace udo
#endif
