#include <algorithm>
#include <chrono>
#include <exception>
#include <set>

#include "model.hpp"

namespace emulator {
namespace {

class Clock {
 public:
  std::uint64_t microseconds() const {
    const auto spent = std::chrono::steady_clock::now() - begun_;
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(spent).count());
  }

 private:
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

/// As libQnnHtp does for ops of packages that register with QHPI.
Qnn_ErrorHandle_t refusePerChannel(const Qnn_OpConfigV1_t& node, const Logger& logger) {
  for (std::uint32_t i = 0; i < node.numOfInputs + node.numOfOutputs; ++i) {
    const Qnn_Tensor_t& tensor = i < node.numOfInputs ? node.inputTensors[i] : node.outputTensors[i - node.numOfInputs];
    const Qnn_QuantizeParams_t& params = common(tensor).quantizeParams;
    if (params.encodingDefinition != QNN_DEFINITION_DEFINED) continue;
    switch (params.quantizationEncoding) {
      case QNN_QUANTIZATION_ENCODING_SCALE_OFFSET:
      case QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET:
      case QNN_QUANTIZATION_ENCODING_UNDEFINED: continue;
      default: break;
    }
    logger.error("op %s::%s does not support per-channel quantization (tensor `%s`)", node.packageName, node.typeName,
                 common(tensor).name == nullptr ? "" : common(tensor).name);
    return QNN_COMMON_ERROR_NOT_SUPPORTED;
  }
  return QNN_SUCCESS;
}

}  // namespace

Qnn_ErrorHandle_t Graph::addTensor(const Qnn_Tensor_t& from, std::uint32_t& id) {
  const std::lock_guard<std::mutex> lock(mutex);
  const Logger& logger = context->backend->logger;
  if (executable != nullptr) return QNN_GRAPH_ERROR_GRAPH_FINALIZED;
  std::unique_ptr<Tensor> made;
  const Qnn_ErrorHandle_t code = Tensor::copy(from, logger, made);
  if (code != QNN_SUCCESS) return code;
  if (made->isDynamic() && !identity.sizesPerCall) {
    logger.error("tensor `%s` has dynamic dimensions", made->name().c_str());
    return QNN_TENSOR_ERROR_UNSUPPORTED_TENSOR_PARAM;
  }
  for (const auto& [_, other] : tensors) {
    if (other->name() != made->name()) continue;
    logger.error("graph `%s` has a tensor `%s` already", name.c_str(), made->name().c_str());
    return QNN_TENSOR_ERROR_ALREADY_EXISTS;
  }
  id = tensors.empty() ? 1 : tensors.rbegin()->first + 1;
  made->setId(id);
  tensors.emplace(id, std::move(made));
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t Graph::addNode(const Qnn_OpConfig_t& config) {
  if (config.version != QNN_OPCONFIG_VERSION_1) return QNN_GRAPH_ERROR_INVALID_OP_CONFIG;
  const std::lock_guard<std::mutex> lock(mutex);
  const Logger& logger = context->backend->logger;
  if (executable != nullptr) return QNN_GRAPH_ERROR_GRAPH_FINALIZED;
  const Qnn_OpConfigV1_t& given = config.v1;
  if (given.typeName == nullptr || given.packageName == nullptr) return QNN_GRAPH_ERROR_INVALID_OP_CONFIG;
  std::shared_ptr<Package> package;
  if (!isBuiltIn(given) && (package = context->backend->find(given.packageName)) == nullptr) {
    logger.error("node `%s`: no op package `%s` is registered", given.name == nullptr ? "" : given.name,
                 given.packageName);
    return QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND;
  }
  std::unique_ptr<Node> node;
  Qnn_ErrorHandle_t code = Node::copy(given, tensors, logger, node);
  if (code != QNN_SUCCESS) return code;
  const auto isDynamic = [&](const Qnn_Tensor_t& each) { return tensors.at(common(each).id)->isDynamic(); };
  const Qnn_OpConfigV1_t& own = node->v1();
  if ((std::any_of(own.inputTensors, own.inputTensors + own.numOfInputs, isDynamic) ||
       std::any_of(own.outputTensors, own.outputTensors + own.numOfOutputs, isDynamic)) &&
      (package != nullptr || !isSizedPerCall(own))) {
    logger.error("node `%s`: op %s takes no dynamic dimensions", node->name(), own.typeName);
    return QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE;
  }
  if (package == nullptr) {
    code = validateBuiltIn(node->v1(), logger);
  } else if (identity.asksPackages) {
    code = package->calls().validateOpConfig(node->config());
  } else {
    code = refusePerChannel(node->v1(), logger);
  }
  if (code != QNN_SUCCESS) return code;
  node->package = package;
  nodes.push_back(std::move(node));
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t Graph::finalize(Profile* profile) {
  const std::lock_guard<std::mutex> lock(mutex);
  const Logger& logger = context->backend->logger;
  if (executable != nullptr) return QNN_GRAPH_ERROR_GRAPH_FINALIZED;
  if (nodes.empty()) {
    logger.error("graph `%s` has no nodes", name.c_str());
    return QNN_GRAPH_ERROR_FINALIZE_FAILED;
  }
  std::set<std::uint32_t> written;
  for (const auto& node : nodes) {
    for (std::uint32_t i = 0; i < node->v1().numOfInputs; ++i) {
      const Tensor& tensor = *tensors.at(common(node->v1().inputTensors[i]).id);
      if ((tensor.isNative() || tensor.type() == QNN_TENSOR_TYPE_APP_READ) && written.count(tensor.id()) == 0) {
        logger.error("node `%s` reads tensor `%s`, which no node before it writes", node->name(), tensor.name().c_str());
        return QNN_GRAPH_ERROR_UNCONNECTED_NODE;
      }
    }
    for (std::uint32_t i = 0; i < node->v1().numOfOutputs; ++i) written.insert(common(node->v1().outputTensors[i]).id);
  }
  inputs.clear();
  outputs.clear();
  for (const auto& [_, tensor] : tensors) {
    if (tensor->isInput()) inputs.push_back(tensor.get());
    if (tensor->isOutput()) outputs.push_back(tensor.get());
  }
  const Clock clock;
  const Qnn_ErrorHandle_t code = compile();
  if (code == QNN_SUCCESS && profile != nullptr) {
    profile->measure("finalize", QNN_PROFILE_EVENTTYPE_FINALIZE, clock.microseconds(), {});
  }
  ready_ = code == QNN_SUCCESS;
  return code;
}

Qnn_ErrorHandle_t Graph::compile() {
  const Composed composed{name.c_str(), tensors, nodes, inputs, outputs, option};
  const Backend& backend = *context->backend;
  return backend.engine->compile(*context->shared, composed, backend.logger, executable);
}

// --- execute --------------------------------------------------------------------------------------------------

void Bound::clear() {
  for (const auto& each : held) --each->uses;
  held.clear();
  sizes.clear();
  shapes.clear();
}

/// Where the data of one tensor lies: in a buffer of the client, or in memory that it has registered.
Qnn_ErrorHandle_t Graph::bufferOf(const Qnn_TensorV1_t& given, const Tensor& wanted, const char* what, void*& buffer,
                                  Bound& bound) const {
  const Logger& logger = context->backend->logger;
  if (given.memType == QNN_TENSORMEMTYPE_RAW) {
    if (given.clientBuf.data == nullptr) {
      logger.error("%s `%s` has no buffer", what, wanted.name().c_str());
      return QNN_GRAPH_ERROR_INVALID_TENSOR;
    }
    if (given.clientBuf.dataSize < wanted.largestBytes()) {
      logger.error("%s `%s` takes %zu bytes, its buffer has %u", what, wanted.name().c_str(), wanted.largestBytes(),
                   given.clientBuf.dataSize);
      return QNN_GRAPH_ERROR_INVALID_TENSOR;
    }
    buffer = given.clientBuf.data;
    return QNN_SUCCESS;
  }
  if (given.memType != QNN_TENSORMEMTYPE_MEMHANDLE) {
    logger.error("%s `%s` is bound to memory of the type %d, which is not emulated", what, wanted.name().c_str(),
                 static_cast<int>(given.memType));
    return QNN_GRAPH_ERROR_INVALID_TENSOR;
  }
  std::shared_ptr<Mem> mem = objects().find<Mem>(given.memHandle);
  const char* fault = nullptr;
  if (mem == nullptr) {
    fault = "which is not registered";
  } else if (mem->context.lock() != context) {
    fault = "which is registered with another context";
  } else if (!mem->request.hasTensor) {
    fault = "which is not for tensors";
  } else if (mem->dataType != wanted.dataType()) {
    fault = "which is registered with another data type";
  } else if (mem->bytes < wanted.largestBytes()) {
    fault = "which is registered with a smaller shape";
  }
  if (fault != nullptr) {
    logger.error("%s `%s` is bound to memory %s", what, wanted.name().c_str(), fault);
    return QNN_GRAPH_ERROR_INVALID_TENSOR;
  }
  buffer = mem->data();
  ++mem->uses;
  bound.held.push_back(std::move(mem));
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t Graph::bind(const Qnn_Tensor_t* given, std::uint32_t count, const std::vector<const Tensor*>& wanted,
                              const char* what, std::vector<void*>& buffers, Bound& bound) const {
  const Logger& logger = context->backend->logger;
  if (count != wanted.size() || (count != 0 && given == nullptr)) {
    logger.error("graph `%s` has %zu %ss, %u were given", name.c_str(), wanted.size(), what, count);
    return QNN_GRAPH_ERROR_INVALID_TENSOR;
  }
  buffers.assign(wanted.size(), nullptr);
  for (std::uint32_t i = 0; i < count; ++i) {
    const Qnn_TensorV1_t& tensor = common(given[i]);
    std::size_t at = 0;
    while (at < wanted.size() && wanted[at]->id() != tensor.id) ++at;
    if (at == wanted.size() || buffers[at] != nullptr) {
      logger.error("graph `%s` has no %s with id %u, or it was given twice", name.c_str(), what, tensor.id);
      return QNN_GRAPH_ERROR_INVALID_TENSOR;
    }
    Qnn_ErrorHandle_t code = bufferOf(tensor, *wanted[at], what, buffers[at], bound);
    if (code == QNN_SUCCESS && wanted[at]->isDynamic()) code = sizeOf(tensor, *wanted[at], what, bound);
    if (code != QNN_SUCCESS) return code;
  }
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t Graph::bindAll(const Qnn_Tensor_t* givenInputs, std::uint32_t numInputs,
                                 const Qnn_Tensor_t* givenOutputs, std::uint32_t numOutputs, Bound& bound) const {
  if (!isEnabled) return QNN_GRAPH_ERROR_DISABLED;
  if (!ready_) return QNN_GRAPH_ERROR_GRAPH_NOT_FINALIZED;
  Qnn_ErrorHandle_t code = bind(givenInputs, numInputs, inputs, "input", bound.from, bound);
  if (code == QNN_SUCCESS) code = bind(givenOutputs, numOutputs, outputs, "output", bound.to, bound);
  bound.read.assign(bound.from.begin(), bound.from.end());
  return code;
}

/// The size of a tensor in this execution: that of an input is the client's, that of an output is written for it.
Qnn_ErrorHandle_t Graph::sizeOf(const Qnn_TensorV1_t& given, const Tensor& wanted, const char* what,
                                Bound& bound) const {
  if (given.rank != wanted.dims().size() || given.dimensions == nullptr) {
    context->backend->logger.error("%s `%s` has dynamic dimensions: each execution gives all %zu", what,
                                   wanted.name().c_str(), wanted.dims().size());
    return QNN_GRAPH_ERROR_INVALID_TENSOR;
  }
  const std::vector<std::uint32_t> size(given.dimensions, given.dimensions + given.rank);
  if (wanted.isInput()) bound.sizes.emplace_back(wanted.id(), size);
  if (wanted.isOutput()) bound.shapes.emplace_back(&wanted, given.dimensions);
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t Graph::resize(const Bound& bound) {
  const Logger& logger = context->backend->logger;
  for (const auto& [id, size] : bound.sizes) {
    Tensor& tensor = *tensors.at(id);
    if (tensor.dims() == size) continue;
    stale_ = true;
    if (tensor.resize(size)) continue;
    logger.error("input `%s` is larger than its graph allows, or in a dimension that is not dynamic",
                 tensor.name().c_str());
    return QNN_GRAPH_ERROR_DYNAMIC_TENSOR_SHAPE;
  }
  if (!stale_) return QNN_SUCCESS;
  for (const auto& node : nodes) {
    if (!node->isBuiltIn()) continue;
    Tensor& made = *tensors.at(common(node->v1().outputTensors[0]).id);
    if (!made.isDynamic() || made.resize(shapeOfBuiltIn(node->v1()))) continue;
    logger.error("node `%s`: tensor `%s` does not take the size that follows from the inputs", node->name(),
                 made.name().c_str());
    return QNN_GRAPH_ERROR_DYNAMIC_TENSOR_SHAPE;
  }
  const Qnn_ErrorHandle_t code = compile();
  stale_ = code != QNN_SUCCESS;
  return code == QNN_SUCCESS ? code : QNN_GRAPH_ERROR_DYNAMIC_TENSOR_SHAPE;
}

Qnn_ErrorHandle_t Graph::run(const Bound& bound, Profile* profile) {
  const std::lock_guard<std::mutex> lock(mutex);
  Qnn_ErrorHandle_t code = resize(bound);
  if (code != QNN_SUCCESS) return code;
  for (const auto& [tensor, shape] : bound.shapes) std::copy(tensor->dims().begin(), tensor->dims().end(), shape);
  if (profile == nullptr) return executable->execute(bound.read, bound.to, nullptr);
  const Clock clock;
  Measured measured;
  const bool detailed = profile->level >= QNN_PROFILE_LEVEL_DETAILED;
  code = executable->execute(bound.read, bound.to, detailed ? &measured : nullptr);
  if (code == QNN_SUCCESS) {
    profile->measure("execute", QNN_PROFILE_EVENTTYPE_EXECUTE, clock.microseconds(), measured);
  }
  return code;
}

Qnn_ErrorHandle_t Graph::execute(const Qnn_Tensor_t* givenInputs, std::uint32_t numInputs,
                                 const Qnn_Tensor_t* givenOutputs, std::uint32_t numOutputs, Profile* profile) {
  thread_local Bound bound;  // kept, so that an execution takes no memory from the heap
  Qnn_ErrorHandle_t code = bindAll(givenInputs, numInputs, givenOutputs, numOutputs, bound);
  if (code == QNN_SUCCESS) code = run(bound, profile);
  bound.clear();
  return code;
}

Qnn_ErrorHandle_t Graph::enqueue(const Qnn_Tensor_t* givenInputs, std::uint32_t numInputs,
                                 const Qnn_Tensor_t* givenOutputs, std::uint32_t numOutputs,
                                 std::shared_ptr<Profile> profile,
                                 std::function<void(Qnn_ErrorHandle_t)> done) {
  const auto bound = std::make_shared<Bound>();
  const Qnn_ErrorHandle_t code = bindAll(givenInputs, numInputs, givenOutputs, numOutputs, *bound);
  if (code != QNN_SUCCESS) return code;
  // The graph lives until its context is freed, and the context waits for its queue first.
  const bool taken = context->queue.push([this, bound, profile, done] {
    Qnn_ErrorHandle_t status = QNN_GRAPH_ERROR_GENERAL;
    try {
      status = run(*bound, profile.get());
    } catch (const std::exception&) {  // no memory: the client is notified of an error
    }
    bound->clear();
    done(status);
  });
  return taken ? QNN_SUCCESS : QNN_GRAPH_ERROR_INVALID_CONTEXT;
}

}  // namespace emulator
