#include "node.hpp"

#include <cstring>

#include "QnnGraph.h"

namespace emulator {

const char* Node::keep(const char* text) {
  texts_.push_back(std::make_unique<std::string>(text == nullptr ? "" : text));
  return texts_.back()->c_str();
}

Qnn_ErrorHandle_t Node::copyTensors(const Qnn_Tensor_t* from, std::uint32_t count, const TensorMap& tensors,
                                    const Logger& logger, std::vector<Qnn_Tensor_t>& to) {
  if (count != 0 && from == nullptr) return QNN_GRAPH_ERROR_INVALID_OP_CONFIG;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto found = tensors.find(common(from[i]).id);
    if (found == tensors.end()) {
      const char* const tensor = common(from[i]).name == nullptr ? "" : common(from[i]).name;
      logger.error("node `%s` names tensor `%s` (id %u), which is not in the graph", name(), tensor, common(from[i]).id);
      return QNN_GRAPH_ERROR_INVALID_TENSOR;
    }
    to.push_back(found->second->raw());
  }
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t Node::copyParams(const Qnn_OpConfigV1_t& from, const TensorMap& tensors, const Logger& logger) {
  if (from.numOfParams != 0 && from.params == nullptr) return QNN_GRAPH_ERROR_INVALID_OP_CONFIG;
  for (std::uint32_t i = 0; i < from.numOfParams; ++i) {
    Qnn_Param_t param = from.params[i];
    param.name = keep(param.name);
    if (param.paramType == QNN_PARAMTYPE_SCALAR) {
      if (static_cast<std::uint32_t>(param.scalarParam.dataType) == QNN_DATATYPE_STRING) {
        param.scalarParam.stringValue = keep(param.scalarParam.stringValue);
      }
    } else if (param.paramType == QNN_PARAMTYPE_TENSOR) {
      const auto found = tensors.find(common(param.tensorParam).id);
      const char* const called = common(param.tensorParam).name;
      if (found != tensors.end() && called != nullptr && found->second->name() == called) {
        param.tensorParam = found->second->raw();
      } else {
        std::unique_ptr<Tensor> made;
        const Qnn_ErrorHandle_t code = Tensor::copy(param.tensorParam, logger, made);
        if (code != QNN_SUCCESS || !made->isStatic()) return QNN_GRAPH_ERROR_INVALID_TENSOR;
        made->setId(0);  // no tensor of the graph
        param.tensorParam = made->raw();
        own_.push_back(std::move(made));
      }
    } else {
      return QNN_GRAPH_ERROR_INVALID_OP_CONFIG;
    }
    params_.push_back(param);
  }
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t Node::copy(const Qnn_OpConfigV1_t& from, const TensorMap& tensors, const Logger& logger,
                             std::unique_ptr<Node>& made) {
  auto node = std::make_unique<Node>();
  node->config_.version = QNN_OPCONFIG_VERSION_1;
  Qnn_OpConfigV1_t& own = node->config_.v1;
  own.name = node->keep(from.name);
  own.packageName = node->keep(from.packageName);
  own.typeName = node->keep(from.typeName);
  Qnn_ErrorHandle_t code = node->copyTensors(from.inputTensors, from.numOfInputs, tensors, logger, node->inputs_);
  if (code == QNN_SUCCESS) {
    code = node->copyTensors(from.outputTensors, from.numOfOutputs, tensors, logger, node->outputs_);
  }
  if (code == QNN_SUCCESS) code = node->copyParams(from, tensors, logger);
  if (code != QNN_SUCCESS) return code;
  own.numOfInputs = from.numOfInputs;
  own.inputTensors = node->inputs_.data();
  own.numOfOutputs = from.numOfOutputs;
  own.outputTensors = node->outputs_.data();
  own.numOfParams = from.numOfParams;
  own.params = node->params_.data();
  made = std::move(node);
  return QNN_SUCCESS;
}

}  // namespace emulator
