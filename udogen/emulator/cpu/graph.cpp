#include "graph.hpp"

#include <algorithm>
#include <cstring>


namespace emulator {
namespace {

/// As libQnnCpu 2.47 hands tensors to custom ops; of every other type it hands them pointers that lead nowhere.
bool delivers(Qnn_DataType_t type, QnnCpuOpPackage_DataType_t& as) {
  switch (static_cast<std::uint32_t>(type)) {
    case QNN_DATATYPE_FLOAT_32: as = QNN_CPU_DATATYPE_FLOAT_32; return true;
    case QNN_DATATYPE_INT_32: as = QNN_CPU_DATATYPE_INT_32; return true;
    case QNN_DATATYPE_UINT_32: as = QNN_CPU_DATATYPE_UINT_32; return true;
    case QNN_DATATYPE_INT_8: as = QNN_CPU_DATATYPE_INT_8; return true;
    case QNN_DATATYPE_UINT_8:
    case QNN_DATATYPE_UFIXED_POINT_8: as = QNN_CPU_DATATYPE_UINT_8; return true;
    case QNN_DATATYPE_BOOL_8: as = QNN_CPU_DATATYPE_BOOL_8; return true;
    default: return false;
  }
}

double numberOf(const Qnn_Scalar_t& scalar) {
  switch (static_cast<std::uint32_t>(scalar.dataType)) {
    case QNN_DATATYPE_FLOAT_32: return static_cast<double>(scalar.floatValue);
    case QNN_DATATYPE_FLOAT_64: return scalar.doubleValue;
    case QNN_DATATYPE_UINT_64: return static_cast<double>(scalar.uint64Value);
    case QNN_DATATYPE_INT_64: return static_cast<double>(scalar.int64Value);
    case QNN_DATATYPE_UINT_32:
    case QNN_DATATYPE_UFIXED_POINT_32: return scalar.uint32Value;
    case QNN_DATATYPE_UINT_16:
    case QNN_DATATYPE_UFIXED_POINT_16: return scalar.uint16Value;
    case QNN_DATATYPE_INT_16:
    case QNN_DATATYPE_SFIXED_POINT_16: return scalar.int16Value;
    case QNN_DATATYPE_UINT_8:
    case QNN_DATATYPE_UFIXED_POINT_8: return scalar.uint8Value;
    case QNN_DATATYPE_INT_8:
    case QNN_DATATYPE_SFIXED_POINT_8: return scalar.int8Value;
    case QNN_DATATYPE_BOOL_8: return scalar.bool8Value;
    default: return scalar.int32Value;
  }
}

}  // namespace

CpuGraph::~CpuGraph() {
  for (const Step& each : steps_) {
    if (each.package == nullptr || each.impl.opImplFn == nullptr) continue;
    QnnCpuOpPackage_OpImpl_t copy = each.impl;  // as the real backend: only what userData leads to is the package's
    each.package->calls().freeOpImpl(&copy);
  }
}

// --- finalize -------------------------------------------------------------------------------------------------

Qnn_ErrorHandle_t CpuGraph::compile(const Composed& graph) {
  for (const auto& [id, tensor] : graph.tensors) {
    if (!tensor->isNative()) continue;
    std::vector<unsigned char> bytes(tensor->bytes() + 2 * guardBytes, 0);
    between_.emplace(id, Between{tensor.get(), std::move(bytes)});
  }
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const auto found = std::find(graph.outputs.begin(), graph.outputs.end(), graph.inputs[i]);
    if (found == graph.outputs.end()) continue;
    both_.emplace_back(i, static_cast<std::size_t>(found - graph.outputs.begin()));
    bothBytes_.push_back(graph.inputs[i]->bytes());
  }
  for (const auto& node : graph.nodes) {
    steps_.emplace_back();
    steps_.back().name = "node `" + std::string(node->name()) + "`";
    const Qnn_ErrorHandle_t code =
        node->isBuiltIn() ? addBuiltIn(graph, *node, steps_.back()) : addCustom(graph, *node, steps_.back());
    if (code != QNN_SUCCESS) return code;
  }
  return QNN_SUCCESS;
}

void CpuGraph::lead(const Composed& graph, const Qnn_Tensor_t& tensor, void** pointer) {
  *pointer = nullptr;
  const Qnn_TensorV1_t& given = common(tensor);
  if (given.type == QNN_TENSOR_TYPE_NULL) return;
  if (given.type == QNN_TENSOR_TYPE_STATIC) {
    *pointer = given.clientBuf.data;
  } else if (const auto found = between_.find(given.id); found != between_.end()) {
    *pointer = found->second.bytes.data() + guardBytes;
  } else {
    const auto place = [&](const std::vector<const Tensor*>& side, std::vector<Place>& places) {
      const auto at = std::find_if(side.begin(), side.end(), [&](const Tensor* each) { return each->id() == given.id; });
      if (at != side.end()) places.push_back({pointer, static_cast<std::size_t>(at - side.begin())});
      return at != side.end();
    };
    place(graph.outputs, fromOutputs_) || place(graph.inputs, fromInputs_);
  }
}

Qnn_ErrorHandle_t CpuGraph::addBuiltIn(const Composed& graph, const Node& node, Step& step) {
  const Qnn_OpConfigV1_t& config = node.v1();
  const Qnn_ErrorHandle_t code = makeBuiltIn(config, logger_, step.builtIn);
  if (code != QNN_SUCCESS) return QNN_GRAPH_ERROR_FINALIZE_FAILED;
  step.inputs.resize(config.numOfInputs);
  step.outputs.resize(config.numOfOutputs);
  for (std::uint32_t i = 0; i < config.numOfInputs; ++i) lead(graph, config.inputTensors[i], &step.inputs[i]);
  for (std::uint32_t i = 0; i < config.numOfOutputs; ++i) lead(graph, config.outputTensors[i], &step.outputs[i]);
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t CpuGraph::addCustom(const Composed& graph, const Node& node, Step& step) {
  step.package = node.package;
  step.shown = std::make_unique<Shown>();
  const Qnn_ErrorHandle_t shown = show(graph, node, *step.shown);
  if (shown != QNN_SUCCESS) return shown;
  QnnOpPackage_OpImpl_t made = nullptr;
  const Qnn_ErrorHandle_t code = node.package->calls().createOpImpl(
      nullptr, reinterpret_cast<QnnOpPackage_Node_t>(&step.shown->node), &made);
  if (code != QNN_SUCCESS || made == nullptr || made->opImplFn == nullptr) {
    logger_.error("%s: createOpImpl of op %s returned %llu%s", step.name.c_str(), node.v1().typeName,
                  static_cast<unsigned long long>(code), code == QNN_SUCCESS ? " and no function to run" : "");
    return QNN_GRAPH_ERROR_FINALIZE_FAILED;
  }
  step.impl = *made;
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t CpuGraph::show(const Composed& graph, const Node& node, Shown& shown) {
  const Qnn_OpConfigV1_t& config = node.v1();
  Qnn_ErrorHandle_t code = QNN_SUCCESS;
  for (std::uint32_t i = 0; i < config.numOfInputs && code == QNN_SUCCESS; ++i) {
    if ((code = showTensor(config.inputTensors[i], node, shown)) != QNN_SUCCESS) break;
    lead(graph, config.inputTensors[i], &shown.tensors.back().data);
    shown.inputs.push_back(&shown.tensors.back());
  }
  for (std::uint32_t i = 0; i < config.numOfOutputs && code == QNN_SUCCESS; ++i) {
    if ((code = showTensor(config.outputTensors[i], node, shown)) != QNN_SUCCESS) break;
    lead(graph, config.outputTensors[i], &shown.tensors.back().data);
    shown.outputs.push_back(&shown.tensors.back());
  }
  for (std::uint32_t i = 0; i < config.numOfParams && code == QNN_SUCCESS; ++i) {
    code = showParam(config.params[i], node, shown);
  }
  if (code != QNN_SUCCESS) return code;
  for (QnnCpuOpPackage_Param_t& each : shown.params) shown.paramPointers.push_back(&each);
  shown.node = {config.name, config.packageName, config.typeName,
                config.numOfParams, shown.paramPointers.data(),
                config.numOfInputs, shown.inputs.data(),
                config.numOfOutputs, shown.outputs.data()};
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t CpuGraph::showTensor(const Qnn_Tensor_t& tensor, const Node& node, Shown& shown) {
  const Qnn_TensorV1_t& given = common(tensor);
  QnnCpuOpPackage_Tensor_t made = {};
  made.dataFormat = QNN_CPUOPPACKAGE_TENSOR_DATA_FORMAT_FLAT_BUFFER;
  made.dataType = QNN_CPU_DATATYPE_UNDEFINED;
  if (given.type != QNN_TENSOR_TYPE_NULL) {
    if (!delivers(given.dataType, made.dataType)) {
      logger_.error("node `%s`: `%s` has the data type 0x%04x, and libQnnCpu passes no data of it to custom ops; it supports "
                    "FLOAT_32, INT_32, UINT_32, INT_8, UINT_8, UFIXED_POINT_8 and BOOL_8",
                    node.name(), given.name == nullptr ? "" : given.name, static_cast<unsigned>(given.dataType));
      return QNN_GRAPH_ERROR_FINALIZE_FAILED;
    }
    made.rank = given.rank;
    made.maxDimensions = made.currentDimensions = given.dimensions;
    made.quantizeParams = given.quantizeParams;
  }
  shown.tensors.push_back(made);
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t CpuGraph::showParam(const Qnn_Param_t& param, const Node& node, Shown& shown) {
  QnnCpuOpPackage_Param_t made = {};
  made.name = param.name;
  if (param.paramType == QNN_PARAMTYPE_TENSOR) {
    const Qnn_ErrorHandle_t code = showTensor(param.tensorParam, node, shown);
    if (code != QNN_SUCCESS) return code;
    made.type = QNN_CPU_PARAMTYPE_TENSOR;
    made.tensorParam = &shown.tensors.back();
    made.tensorParam->data = common(param.tensorParam).clientBuf.data;
  } else if (static_cast<std::uint32_t>(param.scalarParam.dataType) == QNN_DATATYPE_STRING) {
    made.type = QNN_CPU_PARAMTYPE_STRING;
    made.string = param.scalarParam.stringValue;
  } else {
    made.type = QNN_CPU_PARAMTYPE_SCALAR;
    made.scalarParam = numberOf(param.scalarParam);
  }
  shown.params.push_back(made);
  return QNN_SUCCESS;
}

// --- execute --------------------------------------------------------------------------------------------------

Qnn_ErrorHandle_t CpuGraph::runOne(const Step& step) const {
  if (step.builtIn != nullptr) {
    step.builtIn->execute(step.inputs.data(), step.outputs.data());
    return QNN_SUCCESS;
  }
  const Qnn_ErrorHandle_t code = step.impl.opImplFn(step.impl.userData);
  if (code == QNN_SUCCESS) return code;
  logger_.error("%s: op %s returned %llu", step.name.c_str(), step.shown->node.typeName,
                static_cast<unsigned long long>(code));
  return code;
}

void CpuGraph::fillGuards() {
  std::uint32_t number = 0;
  for (auto& [_, each] : between_) {
    unsigned char* const data = each.bytes.data() + guardBytes;
    emulator::fillGuards(data, each.bytes.size() - 2 * guardBytes, {true, number++}, executions_ > 0);
  }
}

bool CpuGraph::isWhole() const {
  std::uint32_t number = 0;
  for (const auto& [_, each] : between_) {
    const bool whole = areGuardsWhole(logger_, "a node", "tensor `" + each.tensor->name() + "`",
                                      each.bytes.data() + guardBytes, each.bytes.size() - 2 * guardBytes,
                                      {true, number++}, executions_ > 0);
    if (!whole) return false;
  }
  return true;
}

Qnn_ErrorHandle_t CpuGraph::execute(const std::vector<const void*>& inputs, const std::vector<void*>& outputs,
                                    Measured* measured) {
  for (std::size_t i = 0; i < both_.size(); ++i) {
    const void* const from = inputs[both_[i].first];
    void* const into = outputs[both_[i].second];
    if (from != into) std::memmove(into, from, bothBytes_[i]);
  }
  for (const Place& each : fromInputs_) *each.pointer = const_cast<void*>(inputs[each.index]);
  for (const Place& each : fromOutputs_) *each.pointer = outputs[each.index];
  fillGuards();
  for (const Step& each : steps_) {
    const auto begun = measured == nullptr ? Measured::Clock::time_point() : Measured::Clock::now();
    if (const Qnn_ErrorHandle_t code = runOne(each); code != QNN_SUCCESS) return code;
    if (measured != nullptr) measured->add(each.name, begun);
  }
  if (!isWhole()) return QNN_GRAPH_ERROR_GENERAL;
  ++executions_;
  return QNN_SUCCESS;
}

}  // namespace emulator
