#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace udo {
namespace {

bool isFixedPoint(Qnn_DataType_t type) { return (type & 0xff00) == 0x0300 || (type & 0xff00) == 0x0400; }

// The runtime delivers fixed point of 8 bits as UINT_8.
std::uint32_t delivered(Qnn_DataType_t type) {
  return static_cast<std::uint32_t>(type == QNN_DATATYPE_UFIXED_POINT_8 ? QNN_DATATYPE_UINT_8 : type);
}

TensorFacts factsOf(const Qnn_Tensor_t& tensor) {
  const bool defined = common(tensor).quantizeParams.encodingDefinition == QNN_DEFINITION_DEFINED;
  return TensorFacts{isLeftOut(tensor), defined && isFixedPoint(common(tensor).dataType)};
}

NodeFacts factsOf(const Qnn_OpConfigV1_t& config) {
  NodeFacts facts;
  for (std::uint32_t i = 0; i < config.numOfInputs + config.numOfOutputs; ++i) {
    const bool isInput = i < config.numOfInputs;
    const Qnn_Tensor_t& tensor = isInput ? config.inputTensors[i] : config.outputTensors[i - config.numOfInputs];
    const std::uint32_t* dims = common(tensor).dimensions;
    (isInput ? facts.inputs : facts.outputs).push_back(factsOf(tensor));
    facts.types.push_back(common(tensor).dataType);
    facts.places.push_back(dims);
    const std::uint32_t rank = isLeftOut(tensor) ? 0 : common(tensor).rank;
    facts.dims.push_back(rank);
    if (rank != 0) facts.dims.insert(facts.dims.end(), dims, dims + rank);
  }
  for (std::uint32_t i = 0; i < config.numOfParams; ++i) {
    const bool scalar = config.params[i].paramType == QNN_PARAMTYPE_SCALAR;
    facts.params.push_back(scalar ? TensorFacts{} : factsOf(config.params[i].tensorParam));
  }
  return facts;
}

// A node is validated right before it is created, also when a context binary is restored.  What validation found is
// kept here by the names of op and node.
std::mutex waitingMutex;

std::map<std::string, std::vector<NodeFacts>>& waiting() {
  static std::map<std::string, std::vector<NodeFacts>> facts;
  return facts;
}

// A client may validate nodes that it never creates: at this number the older half is forgotten.
constexpr std::size_t mostWaiting = 1 << 16;
std::size_t countWaiting = 0;
std::uint64_t validations = 0;

std::string nameOf(const char* op, const char* node) {
  return std::string(op) + "\n" + (node == nullptr ? "" : node);
}

void forgetBefore(std::uint64_t number) {
  for (auto each = waiting().begin(); each != waiting().end();) {
    std::vector<NodeFacts>& seen = each->second;  // the oldest first
    const auto kept = std::find_if(seen.begin(), seen.end(), [&](const NodeFacts& facts) { return facts.number >= number; });
    countWaiting -= static_cast<std::size_t>(kept - seen.begin());
    seen.erase(seen.begin(), kept);
    each = seen.empty() ? waiting().erase(each) : std::next(each);
  }
}

void remember(const Qnn_OpConfigV1_t& config) {
  NodeFacts facts = factsOf(config);
  const std::lock_guard<std::mutex> lock(waitingMutex);
  facts.number = validations++;
  if (countWaiting == mostWaiting) forgetBefore(validations - mostWaiting / 2);
  waiting()[nameOf(config.typeName, config.name)].push_back(std::move(facts));
  ++countWaiting;
}

const RawTensor* tensorAt(const NodeFacts& facts, const QnnCpuOpPackage_Node_t& node, std::size_t i) {
  return i < facts.inputs.size() ? node.inputs[i] : node.outputs[i - facts.inputs.size()];
}

bool isOmitted(const NodeFacts& facts, std::size_t i) {
  return i < facts.inputs.size() ? facts.inputs[i].omitted : facts.outputs[i - facts.inputs.size()].omitted;
}

// Whether counts, shapes and types are those that validation found.
bool matches(const NodeFacts& facts, const QnnCpuOpPackage_Node_t& node) {
  if (!facts.inputs.empty() && node.numOfInputs != facts.inputs.size()) return false;
  if (!facts.outputs.empty() && node.numOfOutputs != facts.outputs.size()) return false;
  std::size_t dim = 0;
  for (std::size_t i = 0; i < facts.types.size(); ++i) {
    const RawTensor* raw = tensorAt(facts, node, i);
    const std::uint32_t rank = raw == nullptr ? 0 : raw->rank;
    if (facts.dims[dim++] != rank) return false;
    for (std::uint32_t axis = 0; axis < rank; ++axis) {
      if (facts.dims[dim++] != raw->maxDimensions[axis]) return false;
    }
    if (isOmitted(facts, i)) continue;
    if (raw == nullptr || static_cast<std::uint32_t>(raw->dataType) != delivered(facts.types[i])) return false;
  }
  return true;
}

// Whether the shapes are also at the same addresses: then it is the node that was validated, and not one of the same
// name in another graph.
bool isSame(const NodeFacts& facts, const QnnCpuOpPackage_Node_t& node) {
  if (!matches(facts, node)) return false;
  for (std::size_t i = 0; i < facts.places.size(); ++i) {
    const RawTensor* raw = tensorAt(facts, node, i);
    if (raw != nullptr && raw->rank != 0 && raw->currentDimensions != facts.places[i]) return false;
  }
  return true;
}

// Removes the newest entry that fits, and returns whether one was found.
bool take(std::vector<NodeFacts>& seen, const QnnCpuOpPackage_Node_t& node,
          bool (*fits)(const NodeFacts&, const QnnCpuOpPackage_Node_t&), NodeFacts& facts) {
  for (std::size_t i = seen.size(); i-- > 0;) {
    if (!fits(seen[i], node)) continue;
    facts = std::move(seen[i]);
    seen.erase(seen.begin() + static_cast<std::ptrdiff_t>(i));
    --countWaiting;
    return true;
  }
  return false;
}

// Gets what validation found about this node; false if it was not validated.
bool recall(const QnnCpuOpPackage_Node_t& node, NodeFacts& facts) {
  const std::lock_guard<std::mutex> lock(waitingMutex);
  const auto found = waiting().find(nameOf(node.typeName, node.name));
  if (found == waiting().end()) return false;
  if (!take(found->second, node, isSame, facts) && !take(found->second, node, matches, facts)) return false;
  if (found->second.empty()) waiting().erase(found);
  return true;
}

// The runtime passes each scalar as a double, which would round most integers beyond 2^53.
Status validateScalars(const Qnn_OpConfigV1_t& config) {
  for (std::uint32_t i = 0; i < config.numOfParams; ++i) {
    const Qnn_Param_t& param = config.params[i];
    if (param.paramType != QNN_PARAMTYPE_SCALAR) continue;
    const std::int64_t whole = param.scalarParam.int64Value;
    const std::uint64_t natural = param.scalarParam.uint64Value;
    const bool isSigned = param.scalarParam.dataType == QNN_DATATYPE_INT_64;
    if (isSigned ? fromNumber<std::int64_t>(static_cast<double>(whole)) == whole
                 : param.scalarParam.dataType != QNN_DATATYPE_UINT_64 ||
                       fromNumber<std::uint64_t>(static_cast<double>(natural)) == natural) {
      continue;
    }
    const std::string value = isSigned ? std::to_string(whole) : std::to_string(natural);
    return error("parameter `%s` of `%s` is %s, which the CPU backend would round: it passes numbers as doubles",
                 param.name, config.typeName, value.c_str());
  }
  return ok;
}

bool has(List<Qnn_DataType_t> types, Qnn_DataType_t type) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

// The config of a node that was not validated (not every client does that), made from the node and the op's spec.
class Inferred {
 public:
  Inferred(const OpSpec& spec, const QnnCpuOpPackage_Node_t& node)
      : inputs_(tensors(spec.inputs, node.inputs, node.numOfInputs)),
        outputs_(tensors(spec.outputs, node.outputs, node.numOfOutputs)) {
    // Counts that should be zero may be uninitialised, as may the arrays.
    const std::uint32_t count = node.numOfParams <= spec.params.count && node.params != nullptr ? node.numOfParams : 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      params_.push_back(param(spec, node.params[i]));
    }
    config_.name = node.name;
    config_.typeName = node.typeName;
    config_.packageName = node.packageName;
    config_.numOfInputs = static_cast<std::uint32_t>(inputs_.size());
    config_.inputTensors = inputs_.data();
    config_.numOfOutputs = static_cast<std::uint32_t>(outputs_.size());
    config_.outputTensors = outputs_.data();
    config_.numOfParams = static_cast<std::uint32_t>(params_.size());
    config_.params = params_.data();
  }

  const Qnn_OpConfigV1_t& config() const { return config_; }

 private:
  static constexpr std::uint32_t mostRepeated = 4096;  // a larger number is not a count

  static std::vector<Qnn_Tensor_t> tensors(List<TensorSpec> specs, RawTensor* const* raw, std::uint32_t count) {
    const bool repeats = std::any_of(specs.begin(), specs.end(), [](const TensorSpec& each) { return each.repeated; });
    if (raw == nullptr || count > (repeats ? mostRepeated : specs.count)) count = 0;
    std::vector<Qnn_Tensor_t> made;
    const TensorSpec* spec = specs.begin();
    std::uint32_t more = count > specs.count ? count - static_cast<std::uint32_t>(specs.count) : 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      made.push_back(tensor(spec->types, spec->mandatory, raw[i]));
      if (spec->repeated && more > 0) {
        --more;
      } else {
        ++spec;
      }
    }
    return made;
  }

  static Qnn_Tensor_t tensor(List<Qnn_DataType_t> types, bool mandatory, const RawTensor* raw) {
    Qnn_Tensor_t made = {};
    made.version = QNN_TENSOR_VERSION_1;
    made.v1.type = QNN_TENSOR_TYPE_NATIVE;
    made.v1.quantizeParams.encodingDefinition = QNN_DEFINITION_UNDEFINED;
    if (raw == nullptr || (raw->rank == 0 && raw->maxDimensions == nullptr && !mandatory)) {
      made.v1.type = QNN_TENSOR_TYPE_NULL;
      return made;
    }
    made.v1.rank = raw->rank;
    made.v1.dimensions = raw->currentDimensions;
    made.v1.dataType = static_cast<Qnn_DataType_t>(raw->dataType);
    if (made.v1.dataType == QNN_DATATYPE_UINT_8 && has(types, QNN_DATATYPE_UFIXED_POINT_8)) {
      // Without an encoding the value of quantizeParams is undefined.
      const Qnn_QuantizeParams_t& given = raw->quantizeParams;
      const bool encoded = given.encodingDefinition == QNN_DEFINITION_DEFINED &&
                           given.quantizationEncoding == QNN_QUANTIZATION_ENCODING_SCALE_OFFSET &&
                           given.scaleOffsetEncoding.scale > 0 && std::isfinite(given.scaleOffsetEncoding.scale);
      if (encoded || !has(types, QNN_DATATYPE_UINT_8)) made.v1.dataType = QNN_DATATYPE_UFIXED_POINT_8;
      if (encoded) made.v1.quantizeParams = given;
    }
    return made;
  }

  static Qnn_Param_t param(const OpSpec& spec, const QnnCpuOpPackage_Param_t* raw) {
    Qnn_Param_t made = {};
    made.name = raw == nullptr || raw->name == nullptr ? "" : raw->name;
    const ParamSpec* const of = find(spec.params, made.name);
    if (raw == nullptr || of == nullptr) return made;  // validation refuses it
    if (raw->type == QNN_CPU_PARAMTYPE_TENSOR) {
      made.paramType = QNN_PARAMTYPE_TENSOR;
      made.tensorParam = tensor(of->types, true, raw->tensorParam);
      return made;
    }
    // Numbers of all types arrive as doubles; the type is the first of the spec.
    const bool number = raw->type == QNN_CPU_PARAMTYPE_SCALAR;
    made.paramType = QNN_PARAMTYPE_SCALAR;
    const Qnn_DataType_t first = of->types.items[0];
    made.scalarParam.dataType = number == (first != textType) ? first : number ? QNN_DATATYPE_FLOAT_32 : textType;
    if (number && isInteger(first)) made.scalarParam.dataType = QNN_DATATYPE_INT_64;  // which must fit into the first
    if (number) made.scalarParam.int64Value = fromNumber<std::int64_t>(raw->scalarParam);
    return made;
  }

  std::vector<Qnn_Tensor_t> inputs_;
  std::vector<Qnn_Tensor_t> outputs_;
  std::vector<Qnn_Param_t> params_;
  Qnn_OpConfigV1_t config_ = {};
};

// Converts tensor parameters to integers of the config's types; `facts` keep them.
Status convertParams(const OpSpec& spec, QnnCpuOpPackage_Node_t& node, NodeFacts& facts) {
  for (std::size_t i = 0; i < facts.params.size(); ++i) {
    QnnCpuOpPackage_Param_t* const given = node.params[i];
    facts.given.push_back(given);
    if (given == nullptr || given->type != QNN_CPU_PARAMTYPE_TENSOR || given->tensorParam == nullptr) continue;
    const ParamSpec* const of = find(spec.params, given->name);
    const RawTensor& from = *given->tensorParam;
    const auto type = static_cast<Qnn_DataType_t>(from.dataType);
    const auto isGiven = [&](Qnn_DataType_t named) { return delivered(named) == static_cast<std::uint32_t>(type); };
    if (of == nullptr || from.data == nullptr) continue;
    if (std::any_of(of->types.begin(), of->types.end(), isGiven)) continue;
    const std::size_t count = Shape(from.currentDimensions, from.rank).count();
    const auto fitsAll = [&](Qnn_DataType_t named) {
      for (std::size_t k = 0; k < count; ++k) {
        if (!fits(integerAt(type, from.data, k), named)) return false;
      }
      return isInteger(named);
    };
    const Qnn_DataType_t* const named = std::find_if(of->types.begin(), of->types.end(), fitsAll);
    if (named == of->types.end()) return error("a value of parameter `%s` does not fit into its type", given->name);
    const std::size_t bytes = bitsOf(*named) / 8;
    facts.converted.push_back(std::make_unique<ConvertedParam>(ConvertedParam{*given, from, {}}));
    ConvertedParam& to = *facts.converted.back();
    to.data.resize(count * sizeof(long long));
    for (std::size_t k = 0; k < count; ++k) {
      const long long value = integerAt(type, from.data, k);
      std::memcpy(to.data.data() + k * bytes, &value, bytes);
    }
    to.tensor.dataType = static_cast<QnnCpuOpPackage_DataType_t>(*named);
    to.tensor.data = to.data.data();
    to.param.tensorParam = &to.tensor;
    facts.given.back() = &to.param;
  }
  node.params = facts.given.data();
  return ok;
}

// The encoding of each channel of a fixed-point tensor; of the whole tensor if it has only one.
class Channels {
 public:
  explicit Channels(const RawTensor& tensor) {
    const Qnn_QuantizeParams_t& params = tensor.quantizeParams;
    if (params.quantizationEncoding == QNN_QUANTIZATION_ENCODING_SCALE_OFFSET) {
      encodings_ = &params.scaleOffsetEncoding;
    } else if (params.quantizationEncoding == QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET) {
      const Qnn_AxisScaleOffset_t& axis = params.axisScaleOffsetEncoding;
      if (axis.axis < 0 || static_cast<std::uint32_t>(axis.axis) >= tensor.rank) return;
      const auto at = static_cast<std::size_t>(axis.axis);
      if (axis.numScaleOffsets != tensor.currentDimensions[at]) return;
      encodings_ = axis.scaleOffset;
      count_ = axis.numScaleOffsets;
      stride_ = Shape(tensor.currentDimensions, tensor.rank).count(at + 1, tensor.rank);
    }
  }
  explicit operator bool() const { return encodings_ != nullptr; }
  Quantization of(std::size_t element) const {
    const Qnn_ScaleOffset_t& found = encodings_[count_ == 1 ? 0 : element / stride_ % count_];
    return Quantization{found.scale, found.offset};
  }

 private:
  const Qnn_ScaleOffset_t* encodings_ = nullptr;
  std::size_t count_ = 1;
  std::size_t stride_ = 1;
};

// Frees what validation found about nodes that were never created; called by the last terminate.
void forgetValidated() {
  const std::lock_guard<std::mutex> lock(waitingMutex);
  waiting().clear();
  countWaiting = 0;
}

}  // namespace

const ValidationRules rules = {
    nullptr, [](Qnn_DataType_t given, Qnn_DataType_t named, bool) { return isInteger(given) && isInteger(named); }};

// --- the op package interface ----------------------------------------------------------------------------------------

Qnn_ErrorHandle_t initialize(QnnOpPackage_GlobalInfrastructure_t) { return executions.begin(); }

Qnn_ErrorHandle_t terminate() {
  const Status status = executions.end();
  if (!executions.isUsed()) forgetValidated();
  return status;
}

Qnn_ErrorHandle_t validateOpConfig(Qnn_OpConfig_t given) {
  if (given.version != QNN_OPCONFIG_VERSION_1) return QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE;
  const Qnn_OpConfigV1_t& config = given.v1;
  const OpEntry* entry = find(tables.ops, config.typeName);
  if (entry == nullptr) return noSuchOp(tables.info, config.typeName);
  const Status status = validateConfig(*entry, config, rules);
  if (status != ok) return status;
  const Status exact = validateScalars(config);
  if (exact == ok) remember(config);
  return exact;
}

Qnn_ErrorHandle_t createOpImpl(QnnOpPackage_GraphInfrastructure_t, QnnOpPackage_Node_t node,
                               QnnOpPackage_OpImpl_t* impl) {
  if (node == nullptr || impl == nullptr) return QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT;
  const auto& cpuNode = *reinterpret_cast<const QnnCpuOpPackage_Node_t*>(node);
  const OpEntry* entry = find(tables.ops, cpuNode.typeName);
  if (entry == nullptr) return error("package %s has no op `%s`", tables.name, cpuNode.typeName);
  NodeFacts facts;
  if (!recall(cpuNode, facts)) {
    const Inferred inferred(*entry, cpuNode);
    const Status status = validateConfig(*entry, inferred.config(), rules);
    if (status != ok) return status;
    facts = factsOf(inferred.config());
  }
  for (std::size_t i = 0; i < facts.inputs.size() + facts.outputs.size(); ++i) {
    const RawTensor* raw = isOmitted(facts, i) ? nullptr : tensorAt(facts, cpuNode, i);
    if (raw != nullptr && raw->rank > Shape::mostAxes) {
      return error("a tensor has rank %u; kernels know at most %zu axes", static_cast<unsigned>(raw->rank),
                   Shape::mostAxes);
    }
  }
  QnnCpuOpPackage_Node_t own = cpuNode;
  Status status = convertParams(*entry, own, facts);
  if (status != ok) return status;
  OpFacts kernel = {};
  entry->describe(kernel);
  Instance* instance = nullptr;
  status = kernel.create(*entry, own, std::move(facts), instance);
  if (status == ok) *impl = reinterpret_cast<QnnOpPackage_OpImpl_t>(&instance->impl);
  return status;
}

Qnn_ErrorHandle_t freeOpImpl(QnnOpPackage_OpImpl_t impl) {
  // The runtime passes a copy of what createOpImpl returned: only userData points to the instance.
  if (impl == nullptr) return QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT;
  auto* instance = static_cast<Instance*>(reinterpret_cast<QnnCpuOpPackage_OpImpl_t*>(impl)->userData);
  if (instance != nullptr) instance->release(instance);
  return ok;
}

RawTensor* FloatCopies::add(const RawTensor& stored, bool isOutput) {
  auto copy = std::make_unique<Copy>(Copy{&stored, stored, isOutput, {}});
  copy->values.resize(Shape(stored.maxDimensions, stored.rank).count());
  copy->floats.dataType = QNN_CPU_DATATYPE_FLOAT_32;
  copy->floats.data = copy->values.data();
  copy->floats.quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_UNDEFINED;
  copies_.push_back(std::move(copy));
  return &copies_.back()->floats;
}

RawTensor* const* FloatCopies::add(RawTensor* const* first, std::size_t count, bool areOutputs) {
  auto list = std::make_unique<RawTensor*[]>(count);
  for (std::size_t i = 0; i < count; ++i) {
    list[i] = first[i]->dataType == QNN_CPU_DATATYPE_FLOAT_32 ? first[i] : add(*first[i], areOutputs);
  }
  lists_.push_back(std::move(list));
  return lists_.back().get();
}

void FloatCopies::check(const char* name, const RawTensor* tensor, bool quantized) {
  Quantization found;
  if (!quantized || tensor == nullptr) return;
  if (!encodingOf(tensor->quantizeParams, found.scale, found.offset)) perChannel_ = name;
}

Status FloatCopies::convert(bool outputs) {
  if (perChannel_ != nullptr) return notWhole(perChannel_);
  for (const auto& copy : copies_) {
    auto* const stored = static_cast<std::uint8_t*>(copy->stored->data);
    if (copy->isOutput != outputs || stored == nullptr) continue;
    const Channels channels(*copy->stored);
    if (!channels) return error("a tensor is quantized in a way that cannot be made floats");
    const std::size_t count = Shape(copy->stored->currentDimensions, copy->stored->rank).count();
    if (count > copy->values.size()) return error("a tensor has become larger than its largest dimensions");
    for (std::size_t i = 0; i < count; ++i) {
      if (outputs) {
        stored[i] = static_cast<std::uint8_t>(channels.of(i).toStored(copy->values[i], 0, 255));
      } else {
        copy->values[i] = channels.of(i).toReal(stored[i]);
      }
    }
  }
  return ok;
}

const QnnCpuOpPackage_Param_t* Binding::find(const char* param, std::size_t* at) const {
  for (std::size_t i = 0; i < facts_.params.size(); ++i) {
    const QnnCpuOpPackage_Param_t* each = node_.params[i];
    if (each == nullptr || each->name == nullptr || std::strcmp(each->name, param) != 0) continue;
    if (at != nullptr) *at = i;
    return each;
  }
  return nullptr;
}

const char* Binding::string(const char* param, const char* otherwise) const {
  const QnnCpuOpPackage_Param_t* found = find(param);
  return found != nullptr && found->type == QNN_CPU_PARAMTYPE_STRING ? found->string : otherwise;
}

RawTensor defaultTensor(Qnn_DataType_t type, const void* data, const std::uint32_t* dims, std::uint32_t rank) {
  RawTensor tensor = {};
  tensor.dataType = static_cast<QnnCpuOpPackage_DataType_t>(delivered(type));
  tensor.rank = rank;
  tensor.maxDimensions = const_cast<std::uint32_t*>(dims);
  tensor.currentDimensions = tensor.maxDimensions;
  tensor.data = const_cast<void*>(data);
  return tensor;
}

}  // namespace udo
