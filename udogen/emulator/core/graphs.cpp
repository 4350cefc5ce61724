// The calls of graphs and of their tensors.
#include "calls.hpp"

namespace emulator {
namespace {

/// Calls with a graph, and with its profile or nothing; there are no signals.
template <class Call>
Qnn_ErrorHandle_t measured(Qnn_GraphHandle_t handle, Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal,
                           const Call& call) {
  return with<Graph>(handle, QNN_GRAPH_ERROR_INVALID_HANDLE, [&](const auto& graph) -> Qnn_ErrorHandle_t {
    std::shared_ptr<Profile> measures;
    if (!findProfile(profile, measures)) return QNN_GRAPH_ERROR_SET_PROFILE;
    if (signal != nullptr) return QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE;
    return call(*graph, measures);
  });
}

Qnn_ErrorHandle_t configure(const Engine& engine, const QnnGraph_Config_t** config, std::uint32_t& option) {
  for (; config != nullptr && *config != nullptr; ++config) {
    switch ((*config)->option) {
      case QNN_GRAPH_CONFIG_OPTION_CUSTOM: {
        const Qnn_ErrorHandle_t code = engine.configure((*config)->customConfig, option);
        if (code != QNN_SUCCESS) return code;
        break;
      }
      case QNN_GRAPH_CONFIG_OPTION_PRIORITY: break;
      default: return QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE;
    }
  }
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t graphCreate(Qnn_ContextHandle_t handle, const char* name, const QnnGraph_Config_t** config,
                              Qnn_GraphHandle_t* made) {
  if (made == nullptr) return QNN_GRAPH_ERROR_INVALID_ARGUMENT;
  return with<Context>(handle, QNN_GRAPH_ERROR_INVALID_HANDLE, [&](const auto& context) -> Qnn_ErrorHandle_t {
    if (name == nullptr || *name == '\0') return QNN_GRAPH_ERROR_INVALID_NAME;
    auto graph = std::make_shared<Graph>(context, name);
    const Qnn_ErrorHandle_t code = configure(*context->backend->engine, config, graph->option);
    if (code != QNN_SUCCESS) return code;
    const std::lock_guard<std::mutex> lock(context->mutex);
    if (context->graphs.count(name) != 0) return QNN_GRAPH_ERROR_INVALID_NAME;
    *made = objects().add(graph);
    context->graphs[name] = {std::move(graph), *made};
    return QNN_SUCCESS;
  });
}

Qnn_ErrorHandle_t graphSetConfig(Qnn_GraphHandle_t handle, const QnnGraph_Config_t** config) {
  return with<Graph>(handle, QNN_GRAPH_ERROR_INVALID_HANDLE, [&](const auto& graph) -> Qnn_ErrorHandle_t {
    if (config == nullptr) return QNN_GRAPH_ERROR_INVALID_ARGUMENT;
    const std::lock_guard<std::mutex> lock(graph->mutex);
    if (graph->executable != nullptr) return QNN_GRAPH_ERROR_GRAPH_FINALIZED;
    return configure(*graph->context->backend->engine, config, graph->option);
  });
}

Qnn_ErrorHandle_t graphAddNode(Qnn_GraphHandle_t handle, Qnn_OpConfig_t op) {
  return with<Graph>(handle, QNN_GRAPH_ERROR_INVALID_HANDLE, [&](const auto& graph) -> Qnn_ErrorHandle_t {
    return graph->addNode(op);
  });
}

Qnn_ErrorHandle_t graphFinalize(Qnn_GraphHandle_t handle, Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal) {
  return measured(handle, profile, signal, [&](Graph& graph, const std::shared_ptr<Profile>& measures) {
    return graph.finalize(measures.get());
  });
}

Qnn_ErrorHandle_t graphRetrieve(Qnn_ContextHandle_t handle, const char* name, Qnn_GraphHandle_t* found) {
  if (name == nullptr || found == nullptr) return QNN_GRAPH_ERROR_INVALID_ARGUMENT;
  return with<Context>(handle, QNN_GRAPH_ERROR_INVALID_HANDLE, [&](const auto& context) -> Qnn_ErrorHandle_t {
    const std::lock_guard<std::mutex> lock(context->mutex);
    const auto graph = context->graphs.find(name);
    if (graph == context->graphs.end()) return QNN_GRAPH_ERROR_GRAPH_DOES_NOT_EXIST;
    *found = graph->second.second;
    return QNN_SUCCESS;
  });
}

Qnn_ErrorHandle_t graphExecute(Qnn_GraphHandle_t handle, const Qnn_Tensor_t* inputs, std::uint32_t numInputs,
                               Qnn_Tensor_t* outputs, std::uint32_t numOutputs, Qnn_ProfileHandle_t profile,
                               Qnn_SignalHandle_t signal) {
  return measured(handle, profile, signal, [&](Graph& graph, const std::shared_ptr<Profile>& measures) {
    return graph.execute(inputs, numInputs, outputs, numOutputs, measures.get());
  });
}

Qnn_ErrorHandle_t graphExecuteAsync(Qnn_GraphHandle_t handle, const Qnn_Tensor_t* inputs, std::uint32_t numInputs,
                                    Qnn_Tensor_t* outputs, std::uint32_t numOutputs, Qnn_ProfileHandle_t profile,
                                    Qnn_SignalHandle_t signal, Qnn_NotifyFn_t notify, void* notifyParam) {
  return measured(handle, profile, signal, [&](Graph& graph, const std::shared_ptr<Profile>& measures) {
    return graph.enqueue(inputs, numInputs, outputs, numOutputs, measures, [notify, notifyParam](Qnn_ErrorHandle_t status) {
      if (notify != nullptr) notify(notifyParam, {status});
    });
  });
}

Qnn_ErrorHandle_t tensorCreateGraphTensor(Qnn_GraphHandle_t handle, Qnn_Tensor_t* tensor) {
  return with<Graph>(handle, QNN_TENSOR_ERROR_INVALID_HANDLE, [&](const auto& graph) -> Qnn_ErrorHandle_t {
    if (tensor == nullptr) return QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM;
    std::uint32_t id = 0;
    const Qnn_ErrorHandle_t code = graph->addTensor(*tensor, id);
    if (code == QNN_SUCCESS) tensor->v1.id = id;  // v2 has it in the same place
    return code;
  });
}

}  // namespace

void fillGraph(QnnInterface_ImplementationV2_t& table) {
  table.graphCreate = graphCreate;
  table.graphSetConfig = graphSetConfig;
  table.graphAddNode = graphAddNode;
  table.graphFinalize = graphFinalize;
  table.graphRetrieve = graphRetrieve;
  table.graphExecute = graphExecute;
  table.graphExecuteAsync = graphExecuteAsync;
  table.tensorCreateGraphTensor = tensorCreateGraphTensor;
}

}  // namespace emulator
