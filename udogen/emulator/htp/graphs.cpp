// Calls around graphs: packages register their kernels, nodes are held against what HTP has, profiles stay bound.
#include "own.hpp"
#include "registry.hpp"

namespace emulator {
namespace {

Qnn_ErrorHandle_t backendRegisterOpPackage(Qnn_BackendHandle_t handle, const char* path, const char* provider,
                                           const char* target) {
  return guarded([&]() -> Qnn_ErrorHandle_t {
    const auto backend = objects().find<Backend>(handle);
    const bool fits = target == nullptr || std::string(target) == identity.target;
    if (backend != nullptr && path != nullptr && provider != nullptr && fits) {
      const Qnn_ErrorHandle_t code = admit(path, backend->logger);
      if (code != QNN_SUCCESS) return code;
    }
    return core.backendRegisterOpPackage(handle, path, provider, target);
  });
}

Qnn_ErrorHandle_t tensorCreateGraphTensor(Qnn_GraphHandle_t handle, Qnn_Tensor_t* tensor) {
  const auto graph = objects().find<Graph>(handle);
  if (graph != nullptr && tensor != nullptr && common(*tensor).type != QNN_TENSOR_TYPE_NULL) {
    const Qnn_TensorV1_t& given = common(*tensor);
    const Logger& logger = graph->context->backend->logger;
    const char* const name = given.name == nullptr ? "" : given.name;
    if (!hasTensorsOf(given.dataType)) {
      logger.error("tensor `%s`: tensor datatype 0x%04x not supported", name, static_cast<unsigned>(given.dataType));
      return QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM;  // as libQnnHtp answers
    }
    if (given.rank < 1 || given.rank > 6) {
      logger.error("tensor `%s` has rank %u; HTP has flat tensors of ranks 1 to 6", name, given.rank);
      return QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM;  // as libQnnHtp answers
    }
  }
  return core.tensorCreateGraphTensor(handle, tensor);
}

Qnn_ErrorHandle_t checkParams(const Qnn_OpConfigV1_t& op, const Logger& logger) {
  const bool isBuiltIn = op.packageName != nullptr && std::string(op.packageName) == builtInPackage;
  for (std::uint32_t i = 0; !isBuiltIn && i < op.numOfParams && op.params != nullptr; ++i) {
    const Qnn_Param_t& param = op.params[i];
    if (param.paramType != QNN_PARAMTYPE_SCALAR || hasScalarsOf(param.scalarParam.dataType)) continue;
    const bool isText = static_cast<std::uint32_t>(param.scalarParam.dataType) == QNN_DATATYPE_STRING;
    logger.error("node `%s`: Unable to add scalar param %s: HTP has no %s", op.name == nullptr ? "" : op.name,
                 param.name == nullptr ? "" : param.name,
                 isText ? "texts" : "numbers of this type as parameters (make it a tensor, or of another type)");
    return QNN_GRAPH_ERROR_INVALID_ARGUMENT;
  }
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t graphAddNode(Qnn_GraphHandle_t handle, Qnn_OpConfig_t op) {
  return guarded([&]() -> Qnn_ErrorHandle_t {
    const auto graph = objects().find<Graph>(handle);
    if (graph != nullptr && op.version == QNN_OPCONFIG_VERSION_1) {
      const Qnn_ErrorHandle_t code = checkParams(op.v1, graph->context->backend->logger);
      if (code != QNN_SUCCESS) return code;
    }
    return core.graphAddNode(handle, op);
  });
}

// --- continuous profiling: a profile that stays bound to its graph ------------------------------------------------

struct Bond {
  Qnn_ProfileHandle_t profile = nullptr;
  bool isEnabled = true;
  std::uint32_t left = UINT32_MAX;
};
std::mutex mutex;
std::map<Qnn_GraphHandle_t, Bond>& bonds() {
  static auto* const all = new std::map<Qnn_GraphHandle_t, Bond>;
  return *all;
}

/// Takes what is about profiles out of a list of configs; the rest is the core's.
Qnn_ErrorHandle_t readBond(Qnn_GraphHandle_t graph, const QnnGraph_Config_t** config, Bond& bond,
                           std::vector<const QnnGraph_Config_t*>& others) {
  for (; config != nullptr && *config != nullptr; ++config) {
    switch ((*config)->option) {
      case QNN_GRAPH_CONFIG_OPTION_PROFILE_HANDLE: {
        const Qnn_ProfileHandle_t wanted = (*config)->profileHandle;
        if (wanted != nullptr && objects().find<Profile>(wanted) == nullptr) return QNN_GRAPH_ERROR_SET_PROFILE;
        const std::lock_guard<std::mutex> lock(mutex);
        for (const auto& [other, bound] : bonds()) {
          const bool lives = objects().find<Graph>(other) != nullptr;
          if (lives && other != graph && wanted != nullptr && bound.profile == wanted) return QNN_GRAPH_ERROR_PROFILE_IN_USE;
        }
        bond.profile = wanted;
        break;
      }
      case QNN_GRAPH_CONFIG_OPTION_SET_PROFILING_STATE:
        bond.isEnabled = (*config)->profilingState == QNN_GRAPH_PROFILING_STATE_ENABLED;
        break;
      case QNN_GRAPH_CONFIG_OPTION_SET_PROFILING_NUM_EXECUTIONS:
        bond.left = (*config)->numProfilingExecutions;
        break;
      default: others.push_back(*config);
    }
  }
  others.push_back(nullptr);
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t graphCreate(Qnn_ContextHandle_t context, const char* name, const QnnGraph_Config_t** config,
                              Qnn_GraphHandle_t* made) {
  return guarded([&]() -> Qnn_ErrorHandle_t {
    Bond bond;
    std::vector<const QnnGraph_Config_t*> others;
    Qnn_ErrorHandle_t code = readBond(nullptr, config, bond, others);
    if (code == QNN_SUCCESS) code = core.graphCreate(context, name, others.data(), made);
    if (code != QNN_SUCCESS) return code;
    const std::lock_guard<std::mutex> lock(mutex);
    if (bond.profile != nullptr) bonds()[*made] = bond;
    return code;
  });
}

Qnn_ErrorHandle_t graphSetConfig(Qnn_GraphHandle_t handle, const QnnGraph_Config_t** config) {
  return guarded([&]() -> Qnn_ErrorHandle_t {
    if (objects().find<Graph>(handle) == nullptr) return QNN_GRAPH_ERROR_INVALID_HANDLE;
    if (config == nullptr) return QNN_GRAPH_ERROR_INVALID_ARGUMENT;
    Bond bond;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      const auto found = bonds().find(handle);
      if (found != bonds().end()) bond = found->second;
    }
    std::vector<const QnnGraph_Config_t*> others;
    Qnn_ErrorHandle_t code = readBond(handle, config, bond, others);
    if (code == QNN_SUCCESS && others.size() > 1) code = core.graphSetConfig(handle, others.data());
    if (code != QNN_SUCCESS) return code;
    const std::lock_guard<std::mutex> lock(mutex);
    bonds()[handle] = bond;
    return code;
  });
}

/// The profile for a call: the client's, or the one that is bound; not both.
Qnn_ErrorHandle_t profileFor(Qnn_GraphHandle_t graph, bool counts, Qnn_ProfileHandle_t& profile) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = bonds().find(graph);
  if (found == bonds().end() || found->second.profile == nullptr) return QNN_SUCCESS;
  if (profile != nullptr) return QNN_GRAPH_ERROR_INVALID_ARGUMENT;
  Bond& bond = found->second;
  if (!bond.isEnabled || (counts && bond.left == 0) || objects().find<Profile>(bond.profile) == nullptr) return QNN_SUCCESS;
  if (counts && bond.left != UINT32_MAX) --bond.left;
  profile = bond.profile;
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t graphFinalize(Qnn_GraphHandle_t handle, Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal) {
  const Qnn_ErrorHandle_t code = profileFor(handle, false, profile);
  return code == QNN_SUCCESS ? core.graphFinalize(handle, profile, signal) : code;
}

Qnn_ErrorHandle_t graphExecute(Qnn_GraphHandle_t handle, const Qnn_Tensor_t* inputs, std::uint32_t numInputs,
                               Qnn_Tensor_t* outputs, std::uint32_t numOutputs, Qnn_ProfileHandle_t profile,
                               Qnn_SignalHandle_t signal) {
  const Qnn_ErrorHandle_t code = profileFor(handle, true, profile);
  if (code != QNN_SUCCESS) return code;
  return core.graphExecute(handle, inputs, numInputs, outputs, numOutputs, profile, signal);
}

}  // namespace

void fillGraphs(QnnInterface_ImplementationV2_t& table) {
  table.backendRegisterOpPackage = backendRegisterOpPackage;
  table.tensorCreateGraphTensor = tensorCreateGraphTensor;
  table.graphAddNode = graphAddNode;
  table.graphCreate = graphCreate;
  table.graphSetConfig = graphSetConfig;
  table.graphFinalize = graphFinalize;
  table.graphExecute = graphExecute;
}

}  // namespace emulator
