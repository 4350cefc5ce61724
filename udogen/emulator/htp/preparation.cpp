#include <algorithm>
#include <cstring>

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

std::uint32_t sizeOfElement(QHPI_Element_Type type) {
  constexpr std::uint32_t sizes[] = {0, 1, 2, 2, 4, 4, 4, 1, 2, 8};
  return type < sizeof sizes / sizeof *sizes ? sizes[type] : 0;
}

std::size_t bytesOf(const QHPI_OutputDef& output) {
  std::size_t product = sizeOfElement(output.type);
  for (std::uint32_t i = 0; i < output.shape.rank && i < QHPI_MAX_RANK; ++i) product *= output.shape.dims[i];
  return product;
}

const QHPI_OutputDef& definitionOf(const QHPI_OpRef& ref) { return ref.op->outputs[ref.output_number]; }

void flipSigns(Qnn_DataType_t type, std::size_t bytes, const void* from, void* to) {
  std::memcpy(to, from, bytes);
  const Delivered* const row = rowOf(type);
  if (row == nullptr || row->shift == 0) return;
  auto* const at = static_cast<unsigned char*>(to);
  const std::size_t step = row->shift == 128 ? 1 : 2;  // the last byte of each has the sign
  for (std::size_t i = step - 1; i < bytes; i += step) at[i] ^= 0x80;
}

QHPI_Op* Preparation::make(OpKind kind, const std::string& name, const QHPI_Op* like) {
  nodes_.push_back(std::make_unique<QHPI_Op>());
  QHPI_Op* const op = nodes_.back().get();
  op->graph = this;
  op->kind = kind;
  op->name = name;
  if (like != nullptr) op->node = like->node;
  return op;
}

QHPI_Op* Preparation::constant(const Tensor& tensor, const std::string& node) {
  QHPI_Op* const op = make(OpKind::constant, "$Const");
  op->node = node;
  op->outputs.push_back(definitionOf(tensor));
  op->data.resize(tensor.bytes());
  flipSigns(tensor.dataType(), tensor.bytes(), tensor.data().data(), op->data.data());
  return op;
}

QHPI_Op* Preparation::scalar(const Qnn_Param_t& param, const std::string& node) {
  const Delivered& row = *rowOf(param.scalarParam.dataType);
  QHPI_Op* const op = make(OpKind::constant, "$Const");
  op->node = node;
  // A truth arrives as a Float32 of which the first byte is set, and the rest is uncleared.
  const bool isTruth = row.type == QNN_DATATYPE_BOOL_8;
  const QHPI_Element_Type element = isTruth ? static_cast<QHPI_Element_Type>(QHPI_Float32) : row.element;
  op->outputs.push_back({element, {row.shift, 1.0f}, {4, {1, 1, 1, 1}}});
  op->data.assign(sizeOfElement(element), 0x55);
  if (isTruth) {
    op->data[0] = param.scalarParam.bool8Value != 0;
  } else {
    flipSigns(param.scalarParam.dataType, op->data.size(), &param.scalarParam.uint64Value, op->data.data());
  }
  return op;
}

Qnn_ErrorHandle_t Preparation::addParams(const Qnn_OpConfigV1_t& config,
                                         const std::map<std::uint32_t, QHPI_OpRef>& values, QHPI_Op& op) {
  for (std::uint32_t i = 0; i < config.numOfParams; ++i) {
    const Qnn_Param_t& param = config.params[i];
    QHPI_Op* value = nullptr;
    if (param.paramType == QNN_PARAMTYPE_SCALAR) {
      const Delivered* const row = rowOf(param.scalarParam.dataType);
      if (row == nullptr || !row->isScalar) {
        logger_.error("%s: HTP has no parameters of the type of `%s` (make it a tensor, or of another type)",
                      titleOf(op).c_str(), param.name);
        return refused;
      }
      value = scalar(param, op.node);
    } else if (const auto known = values.find(common(param.tensorParam).id); known != values.end()) {
      value = make(OpKind::constant, "$Const", &op);
      value->outputs = known->second.op->outputs;
      value->data = known->second.op->data;
    } else {
      std::unique_ptr<Tensor> copied;
      const Qnn_ErrorHandle_t code = Tensor::copy(param.tensorParam, logger_, copied);
      if (code != QNN_SUCCESS) return code;
      value = constant(*copied, op.node);
    }
    value->isParam = true;
    op.inputs.push_back({value, 0});
  }
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t Preparation::rewrite(const QHPI_Op*& op) const {
  constexpr int most = 4;
  for (int times = 0; op->info->early_rewrite != nullptr; ++times) {
    const QHPI_Op* const with = op->info->early_rewrite(op);
    if (with == op) break;
    if (with != nullptr && with->kind == OpKind::error) {
      logger_.error("%s: early rewrite yields error: %s", titleOf(*op).c_str(), with->name.c_str());
      return refused;
    }
    const auto isKnown = [&](const QHPI_OpRef& input) {
      const auto same = [&](const QHPI_OpRef& own) { return own.op == input.op; };
      return input.op->kind == OpKind::constant || std::any_of(op->inputs.begin(), op->inputs.end(), same);
    };
    const auto isSame = [](const QHPI_OutputDef& one, const QHPI_OutputDef& other) {
      return one.shape.rank == other.shape.rank && bytesOf(one) == bytesOf(other);
    };
    const bool isOrder = with != nullptr && with->info == op->info && times < most &&
                         std::all_of(with->inputs.begin(), with->inputs.end(), isKnown) &&
                         std::equal(with->outputs.begin(), with->outputs.end(), op->outputs.begin(), op->outputs.end(), isSame);
    if (!isOrder) {
      logger_.error("%s: its early rewrite makes other nodes, which only libQnnHtp runs", titleOf(*op).c_str());
      return refused;
    }
    op = with;
  }
  if (op->info->late_rewrite == nullptr) return QNN_SUCCESS;
  logger_.error("%s: it has a late rewrite, which only libQnnHtp runs", titleOf(*op).c_str());
  return refused;
}

Qnn_ErrorHandle_t Preparation::add(const Node& node, std::map<std::uint32_t, QHPI_OpRef>& values) {
  const Qnn_OpConfigV1_t& config = node.v1();
  const bool isBuiltIn = node.package == nullptr;
  const std::string name = std::string(config.packageName) + "::" + config.typeName;
  const QHPI_OpInfo_v1* const info = isBuiltIn ? nullptr : findOp(name);
  if (!isBuiltIn && info == nullptr) {
    logger_.error("node `%s`: could not create op: %s: package %s has registered no op of this name", config.name,
                  name.c_str(), config.packageName);
    return refused;
  }
  QHPI_Op* const op = make(isBuiltIn ? OpKind::builtIn : OpKind::op, name);
  op->node = config.name;
  op->info = info;
  op->origin = &node;
  for (std::uint32_t i = 0; i < config.numOfInputs; ++i) {
    const Qnn_TensorV1_t& tensor = common(config.inputTensors[i]);
    if (tensor.type == QNN_TENSOR_TYPE_NULL) {
      QHPI_Op* const none = make(OpKind::missing, "$Shape", op);
      none->outputs.push_back({QHPI_UNKNOWN, {0, 1.0f}, {4, {1, 1, 1, 0}}});
      op->inputs.push_back({none, 0});
    } else {
      op->inputs.push_back(values.at(tensor.id));
    }
  }
  for (std::uint32_t i = 0; i < config.numOfOutputs; ++i) {
    std::unique_ptr<Tensor> copied;
    const Qnn_ErrorHandle_t code = Tensor::copy(config.outputTensors[i], logger_, copied);
    if (code != QNN_SUCCESS) return code;
    op->outputs.push_back(definitionOf(*copied));
  }
  const QHPI_Op* prepared = op;
  if (!isBuiltIn) {
    Qnn_ErrorHandle_t code = addParams(config, values, *op);
    if (code == QNN_SUCCESS) code = rewrite(prepared);
    if (code != QNN_SUCCESS) return code;
  }
  ops.push_back(prepared);
  for (std::uint32_t i = 0; i < config.numOfOutputs; ++i) values[common(config.outputTensors[i]).id] = {prepared, i};
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t Preparation::compose(const Composed& graph) {
  std::map<std::uint32_t, QHPI_OpRef> values;
  for (const auto& [id, tensor] : graph.tensors) {
    if (tensor->isStatic()) {
      values[id] = {constant(*tensor, ""), 0};
    } else if (tensor->isInput()) {
      QHPI_Op* const input = make(OpKind::input, "$Input");
      input->tensor = tensor.get();
      input->outputs.push_back(definitionOf(*tensor));
      values[id] = {input, 0};
      inputs.push_back(input);
    }
  }
  for (const auto& node : graph.nodes) {
    const Qnn_ErrorHandle_t code = add(*node, values);
    if (code != QNN_SUCCESS) return code;
  }
  for (const Tensor* const tensor : graph.outputs) {
    const auto written = values.find(tensor->id());
    if (written == values.end()) {
      logger_.error("graph `%s`: no node writes output `%s`", graph.name, tensor->name().c_str());
      return QNN_GRAPH_ERROR_UNCONNECTED_NODE;
    }
    results.push_back({tensor, written->second});
  }
  return QNN_SUCCESS;
}

}  // namespace emulator
