// From the client's graph to nodes: constants, parameters as further inputs, ranks of at least four.
#include <cstring>

#include "layout.hpp"
#include "preparation.hpp"
#include "registry.hpp"

namespace emulator {
namespace {

// What libQnnHtp 2.47 was seen to deliver for each type of tensor.
struct Delivered {
  std::uint32_t type;
  QHPI_Element_Type element;
  std::int32_t shift;  // what is added to the zero point, for its highest bit is turned
  bool isScalar;       // parameters of this type that are one number are there too
};
constexpr Delivered delivered[] = {
    {QNN_DATATYPE_INT_8, QHPI_QUInt8, 128, true},
    {QNN_DATATYPE_UINT_8, QHPI_QUInt8, 0, true},
    {QNN_DATATYPE_BOOL_8, QHPI_QUInt8, 0, true},
    {QNN_DATATYPE_SFIXED_POINT_8, QHPI_QUInt8, 128, true},
    {QNN_DATATYPE_UFIXED_POINT_8, QHPI_QUInt8, 0, true},
    {QNN_DATATYPE_INT_16, QHPI_QUInt16, 32768, true},
    {QNN_DATATYPE_UINT_16, QHPI_QUInt16, 0, true},
    {QNN_DATATYPE_SFIXED_POINT_16, QHPI_QUInt16, 32768, true},
    {QNN_DATATYPE_UFIXED_POINT_16, QHPI_QUInt16, 0, true},
    {QNN_DATATYPE_INT_32, QHPI_Int32, 0, true},
    {QNN_DATATYPE_UINT_32, QHPI_Int32, 0, true},
    {QNN_DATATYPE_SFIXED_POINT_32, QHPI_QInt32, 0, false},
    {QNN_DATATYPE_UFIXED_POINT_32, QHPI_QInt32, 0, false},
    {QNN_DATATYPE_INT_64, QHPI_Int64, 0, false},
    {QNN_DATATYPE_FLOAT_16, QHPI_Float16, 0, false},
    {QNN_DATATYPE_FLOAT_32, QHPI_Float32, 0, true},
};

const Delivered* rowOf(Qnn_DataType_t type) {
  for (const Delivered& row : delivered) {
    if (row.type == static_cast<std::uint32_t>(type)) return &row;
  }
  return nullptr;
}

QHPI_Quant_Parameters quantizationOf(const Qnn_QuantizeParams_t& params, std::int32_t shift) {
  QHPI_Quant_Parameters found = {shift, 1.0f};
  if (params.encodingDefinition != QNN_DEFINITION_DEFINED) return found;
  if (params.quantizationEncoding == QNN_QUANTIZATION_ENCODING_SCALE_OFFSET) {
    found = {shift - params.scaleOffsetEncoding.offset, params.scaleOffsetEncoding.scale};
  } else if (params.quantizationEncoding == QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET) {
    found = {shift - params.bwScaleOffsetEncoding.offset, params.bwScaleOffsetEncoding.scale};
  }
  return found;
}

}  // namespace

bool hasTensorsOf(Qnn_DataType_t type) { return rowOf(type) != nullptr; }

bool hasScalarsOf(Qnn_DataType_t type) {
  const Delivered* const row = rowOf(type);
  return row != nullptr && row->isScalar;
}

QHPI_OutputDef definitionOf(const Tensor& tensor) {
  const Qnn_TensorV1_t& from = common(tensor.raw());
  const Delivered* const row = rowOf(from.dataType);
  QHPI_OutputDef made = {};
  made.type = row == nullptr ? QHPI_UNKNOWN : row->element;
  made.quant_parameters = quantizationOf(from.quantizeParams, row == nullptr ? 0 : row->shift);
  const std::uint32_t ones = from.rank < 4 ? 4 - from.rank : 0;
  made.shape.rank = from.rank + ones;
  for (std::uint32_t i = 0; i < ones; ++i) made.shape.dims[i] = 1;
  for (std::uint32_t i = 0; i < from.rank && ones + i < QHPI_MAX_RANK; ++i) made.shape.dims[ones + i] = from.dimensions[i];
  return made;
}

std::size_t bytesOf(const QHPI_OutputDef& output) { return countOf(output.shape) * sizeOfElement(output.type); }

const QHPI_OutputDef& definitionOf(const QHPI_OpRef& ref) { return ref.op->outputs[ref.output_number]; }

std::string textOf(const QHPI_Shape& shape) {
  std::string text;
  for (std::uint32_t i = 0; i < shape.rank && i < QHPI_MAX_RANK; ++i) {
    text += (i == 0 ? "" : "x") + std::to_string(shape.dims[i]);
  }
  return text;
}

void flipSigns(Qnn_DataType_t type, std::size_t bytes, const void* from, void* to) {
  std::memcpy(to, from, bytes);
  const Delivered* const row = rowOf(type);
  if (row == nullptr || row->shift == 0) return;
  auto* const at = static_cast<unsigned char*>(to);
  const std::size_t step = row->shift == 128 ? 1 : 2;  // the last byte of each has the sign
  for (std::size_t i = step - 1; i < bytes; i += step) at[i] ^= 0x80;
}

QHPI_Op* Preparation::make(OpKind kind, const std::string& name, const QHPI_Op* like) {
  ops_.push_back(std::make_unique<QHPI_Op>());
  QHPI_Op* const made = ops_.back().get();
  made->graph = this;
  made->id = static_cast<std::uint32_t>(ops_.size());
  made->kind = kind;
  made->name = name;
  if (like != nullptr) made->node = like->node;
  return made;
}

QHPI_Op* Preparation::fail(const std::string& why, const QHPI_Op* like) {
  QHPI_Op* const made = make(OpKind::error, "$Error", like);
  made->message = why;
  return made;
}

QHPI_Op* Preparation::constant(const Tensor& tensor, const std::string& node) {
  QHPI_Op* const made = make(OpKind::constant, "$Const");
  made->node = node;
  made->tensor = &tensor;
  made->outputs.push_back(definitionOf(tensor));
  made->data.resize(tensor.bytes());
  flipSigns(tensor.dataType(), tensor.bytes(), tensor.data().data(), made->data.data());
  return made;
}

QHPI_Op* Preparation::scalar(const Qnn_Param_t& param, const std::string& node) {
  const Delivered& row = *rowOf(param.scalarParam.dataType);
  QHPI_Op* const made = make(OpKind::constant, "$Const");
  made->node = node;
  made->isParam = true;
  // A truth arrives as a Float32 of which the first byte is set, and the rest is uncleared.
  const bool isTruth = row.type == QNN_DATATYPE_BOOL_8;
  const QHPI_Element_Type element = isTruth ? static_cast<QHPI_Element_Type>(QHPI_Float32) : row.element;
  made->outputs.push_back({element, {row.shift, 1.0f}, {4, {1, 1, 1, 1}}});
  made->data.assign(sizeOfElement(element), 0x55);
  if (isTruth) {
    made->data[0] = param.scalarParam.bool8Value != 0;
  } else {
    flipSigns(param.scalarParam.dataType, made->data.size(), &param.scalarParam.uint64Value, made->data.data());
  }
  return made;
}

Qnn_ErrorHandle_t Preparation::add(const Node& node, std::map<std::uint32_t, QHPI_OpRef>& values) {
  const Qnn_OpConfigV1_t& config = node.v1();
  const bool isBuiltIn = node.package == nullptr;
  const std::string name = std::string(config.packageName) + "::" + config.typeName;
  const QHPI_OpInfo_v1* const info = isBuiltIn ? nullptr : registry().find(name);
  if (!isBuiltIn && info == nullptr) {
    logger.error("node `%s`: could not create op: %s: package %s has registered no op of this name", config.name,
                 name.c_str(), config.packageName);
    return QNN_GRAPH_ERROR_MEM_ALLOC;  // 1002, as libQnnHtp returns for all that it cannot prepare
  }
  QHPI_Op* const op = make(isBuiltIn ? OpKind::builtIn : OpKind::op, name);
  op->node = config.name;
  op->info = info;
  op->origin = &node;
  for (std::uint32_t i = 0; i < config.numOfInputs; ++i) {
    const Qnn_TensorV1_t& tensor = common(config.inputTensors[i]);
    if (tensor.type == QNN_TENSOR_TYPE_NULL) {
      QHPI_Op* const none = make(OpKind::shape, "$Shape", op);
      none->outputs.push_back({QHPI_UNKNOWN, {0, 1.0f}, {4, {1, 1, 1, 0}}});
      op->inputs.push_back({none, 0});
    } else {
      op->inputs.push_back(values.at(tensor.id));
    }
  }
  for (std::uint32_t i = 0; i < config.numOfParams && !isBuiltIn; ++i) {
    const Qnn_Param_t& param = config.params[i];
    if (param.paramType == QNN_PARAMTYPE_SCALAR) {
      op->inputs.push_back({scalar(param, op->node), 0});
      continue;
    }
    const auto found = values.find(common(param.tensorParam).id);
    QHPI_Op* made = nullptr;
    if (common(param.tensorParam).id != 0 && found != values.end()) {
      made = make(OpKind::constant, "$Const");
      const QHPI_Op& shared = *found->second.op;
      made->node = op->node, made->tensor = shared.tensor, made->outputs = shared.outputs, made->data = shared.data;
    } else {
      std::unique_ptr<Tensor> copied;
      const Qnn_ErrorHandle_t code = Tensor::copy(param.tensorParam, logger, copied);
      if (code != QNN_SUCCESS) return code;
      made = constant(*copied, op->node);
      made->tensor = nullptr;
    }
    made->isParam = true;
    op->inputs.push_back({made, 0});
  }
  for (std::uint32_t i = 0; i < config.numOfOutputs; ++i) {
    Qnn_Tensor_t raw = config.outputTensors[i];
    std::unique_ptr<Tensor> copied;
    if (const Qnn_ErrorHandle_t code = Tensor::copy(raw, logger, copied); code != QNN_SUCCESS) return code;
    op->outputs.push_back(definitionOf(*copied));
    values[common(raw).id] = {op, i};
  }
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t Preparation::compose(const Composed& graph) {
  std::map<std::uint32_t, QHPI_OpRef> values;
  for (const auto& [id, tensor] : graph.tensors) {
    if (tensor->isStatic()) {
      values[id] = {constant(*tensor, ""), 0};
    } else if (tensor->isInput()) {
      QHPI_Op* const made = make(OpKind::input, "$Input");
      made->tensor = tensor.get();
      made->outputs.push_back(definitionOf(*tensor));
      values[id] = {made, 0};
    }
  }
  for (const auto& node : graph.nodes) {
    const Qnn_ErrorHandle_t code = add(*node, values);
    if (code != QNN_SUCCESS) return code;
  }
  for (const Tensor* const tensor : graph.outputs) {
    const auto found = values.find(tensor->id());
    if (found == values.end()) {
      logger.error("graph `%s`: no node writes output `%s`", graph.name, tensor->name().c_str());
      return QNN_GRAPH_ERROR_UNCONNECTED_NODE;
    }
    results.push_back({tensor, found->second});
  }
  return QNN_SUCCESS;
}

std::vector<QHPI_Op*> Preparation::order() const {
  std::vector<QHPI_Op*> sorted;
  std::vector<char> state(ops_.size() + 1, 0);
  std::vector<std::pair<QHPI_Op*, std::size_t>> path;  // not recursive: concatenations of many tiles are deep
  const auto visit = [&](const QHPI_Op* from) {
    if (state[from->id] != 0) return;
    state[from->id] = 1;
    path.emplace_back(const_cast<QHPI_Op*>(from), 0);
    while (!path.empty()) {
      auto& [op, next] = path.back();
      if (next == op->inputs.size()) {
        sorted.push_back(op);
        path.pop_back();
        continue;
      }
      const QHPI_Op* const input = op->inputs[next++].op;
      if (state[input->id] != 0) continue;
      state[input->id] = 1;
      path.emplace_back(const_cast<QHPI_Op*>(input), 0);
    }
  };
  for (const Result& result : results) visit(result.from.op);
  return sorted;
}

std::uint32_t Preparation::uses(const QHPI_Op* op) const {
  std::uint32_t count = 0;
  for (const QHPI_Op* const each : order()) {
    for (const QHPI_OpRef& input : each->inputs) count += input.op == op;
  }
  for (const Result& result : results) count += result.from.op == op;
  return count;
}

}  // namespace emulator
