// Auto-generated part of every op package that udogen generates for the CPU backend; regenerating rewrites this file.
#include "CPU/CpuBackendUtils.hpp"

#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "Validation.hpp"

namespace udo {
namespace {

// v1 and v2 of a tensor agree in everything up to the client's buffer.
const Qnn_TensorV1_t& common(const Qnn_Tensor_t& tensor) { return tensor.v1; }

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
    if (!isLeftOut(tensor)) facts.dims.insert(facts.dims.end(), dims, dims + common(tensor).rank);
  }
  for (std::uint32_t i = 0; i < config.numOfParams; ++i) {
    const bool scalar = config.params[i].paramType == QNN_PARAMTYPE_SCALAR;
    facts.params.push_back(scalar ? TensorFacts{} : factsOf(config.params[i].tensorParam));
  }
  return facts;
}

// Validation of a node comes right before its making, also where a context binary is restored; what it saw waits
// here under the names of op and node.
std::mutex waitingMutex;

std::map<std::string, std::vector<NodeFacts>>& waiting() {
  static std::map<std::string, std::vector<NodeFacts>> facts;
  return facts;
}

constexpr std::size_t mostWaiting = 1024;  // of one name: validations that no node followed

std::string nameOf(const char* op, const char* node) {
  return std::string(op) + "\n" + (node == nullptr ? "" : node);
}

void remember(const Qnn_OpConfigV1_t& config) {
  const std::lock_guard<std::mutex> lock(waitingMutex);
  std::vector<NodeFacts>& seen = waiting()[nameOf(config.typeName, config.name)];
  if (seen.size() == mostWaiting) seen.erase(seen.begin());
  seen.push_back(factsOf(config));
}

const RawTensor* tensorAt(const NodeFacts& facts, const QnnCpuOpPackage_Node_t& node, std::size_t i) {
  const bool isInput = i < facts.inputs.size();
  const std::size_t at = isInput ? i : i - facts.inputs.size();
  return (isInput ? facts.inputs : facts.outputs)[at].omitted ? nullptr : (isInput ? node.inputs : node.outputs)[at];
}

/// True where counts, shapes and types are those that validation saw.
bool matches(const NodeFacts& facts, const QnnCpuOpPackage_Node_t& node) {
  if (!facts.inputs.empty() && node.numOfInputs != facts.inputs.size()) return false;
  if (!facts.outputs.empty() && node.numOfOutputs != facts.outputs.size()) return false;
  std::size_t dim = 0;
  for (std::size_t i = 0; i < facts.types.size(); ++i) {
    const RawTensor* raw = tensorAt(facts, node, i);
    if (raw == nullptr) continue;
    if (dim + raw->rank > facts.dims.size()) return false;
    for (std::uint32_t axis = 0; axis < raw->rank; ++axis) {
      if (facts.dims[dim++] != raw->maxDimensions[axis]) return false;
    }
    if (static_cast<std::uint32_t>(raw->dataType) != delivered(facts.types[i])) return false;
  }
  return true;
}

/// True where also the shapes stand at the same places in memory: then it is the very node that validation saw, not
/// one of the same name in another graph.
bool isSame(const NodeFacts& facts, const QnnCpuOpPackage_Node_t& node) {
  if (!matches(facts, node)) return false;
  for (std::size_t i = 0; i < facts.places.size(); ++i) {
    const RawTensor* raw = tensorAt(facts, node, i);
    if (raw != nullptr && raw->rank != 0 && raw->currentDimensions != facts.places[i]) return false;
  }
  return true;
}

/// Takes out the newest that fits.
bool take(std::vector<NodeFacts>& seen, const QnnCpuOpPackage_Node_t& node,
          bool (*fits)(const NodeFacts&, const QnnCpuOpPackage_Node_t&), NodeFacts& facts) {
  for (std::size_t i = seen.size(); i-- > 0;) {
    if (!fits(seen[i], node)) continue;
    facts = std::move(seen[i]);
    seen.erase(seen.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  }
  return false;
}

/// What validation saw of this node; false where it never saw it.
bool recall(const QnnCpuOpPackage_Node_t& node, NodeFacts& facts) {
  const std::lock_guard<std::mutex> lock(waitingMutex);
  const auto found = waiting().find(nameOf(node.typeName, node.name));
  if (found == waiting().end()) return false;
  if (!take(found->second, node, isSame, facts) && !take(found->second, node, matches, facts)) return false;
  if (found->second.empty()) waiting().erase(found);
  return true;
}

/// The encoding of one channel of a tensor of fixed point; of the whole tensor where it has only one.
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

Status unknownEncoding() { return error("a tensor is quantized in a way that cannot be made floats"); }

const OpEntry* find(List<OpEntry> ops, const char* name) {
  for (const OpEntry& each : ops) {
    if (name != nullptr && std::strcmp(each.spec.name, name) == 0) return &each;
  }
  return nullptr;
}

}  // namespace

Status validate(const char* package, List<OpEntry> ops, const Qnn_OpConfigV1_t& config) {
  const OpEntry* entry = find(ops, config.typeName);
  if (entry == nullptr) {
    std::string known;
    for (const OpEntry& each : ops) known += (known.empty() ? "" : ", ") + std::string(each.spec.name);
    return noSuchOp(package, config.typeName, known.c_str());
  }
  const Status status = validateConfig(entry->spec, config);
  if (status == ok) remember(config);
  return status;
}

Status createInstance(const char* package, List<OpEntry> ops, QnnOpPackage_Node_t node, QnnOpPackage_OpImpl_t* impl) {
  if (node == nullptr || impl == nullptr) return QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT;
  const auto& cpuNode = *reinterpret_cast<const QnnCpuOpPackage_Node_t*>(node);
  const OpEntry* entry = find(ops, cpuNode.typeName);
  if (entry == nullptr) return error("package %s has no op `%s`", package, cpuNode.typeName);
  NodeFacts facts;
  if (!recall(cpuNode, facts)) {
    return error("op %s: node `%s` was never validated", cpuNode.typeName, cpuNode.name == nullptr ? "" : cpuNode.name);
  }
  Instance* instance = nullptr;
  const Status status = entry->create(*entry, cpuNode, std::move(facts), instance);
  if (status == ok) *impl = reinterpret_cast<QnnOpPackage_OpImpl_t>(&instance->impl);
  return status;
}

Status freeInstance(QnnOpPackage_OpImpl_t impl) {
  // The runtime passes a copy of what createInstance gave it: only userData is ours.
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

Status FloatCopies::dequantize() {
  for (const auto& copy : copies_) {
    const auto* stored = static_cast<const std::uint8_t*>(copy->stored->data);
    if (copy->isOutput || stored == nullptr) continue;
    const Channels channels(*copy->stored);
    if (!channels) return unknownEncoding();
    const std::size_t count = Shape(copy->stored->currentDimensions, copy->stored->rank).count();
    if (count > copy->values.size()) return error("a tensor has become larger than it was said to be");
    for (std::size_t i = 0; i < count; ++i) copy->values[i] = channels.of(i).toReal(stored[i]);
  }
  return ok;
}

Status FloatCopies::quantize() {
  for (const auto& copy : copies_) {
    auto* stored = static_cast<std::uint8_t*>(copy->stored->data);
    if (!copy->isOutput || stored == nullptr) continue;
    const Channels channels(*copy->stored);
    if (!channels) return unknownEncoding();
    const std::size_t count = Shape(copy->stored->currentDimensions, copy->stored->rank).count();
    if (count > copy->values.size()) return error("a tensor has become larger than it was said to be");
    for (std::size_t i = 0; i < count; ++i) {
      stored[i] = static_cast<std::uint8_t>(channels.of(i).toStored(copy->values[i], 0, 255));
    }
  }
  return ok;
}

std::size_t Binding::position(List<TensorSpec> specs, std::size_t count, std::size_t index) {
  for (std::size_t i = 0; i < index; ++i) {
    if (specs.items[i].repeated && count > specs.count) return index + count - specs.count;
  }
  return index;
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
