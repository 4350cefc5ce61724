#include "graph.hpp"

#include <cstring>
#include <numeric>

#include "arguments.hpp"
#include "package.hpp"

namespace emulator {

ClGraph::~ClGraph() {
  device_->cl.clFinish(device_->queue.get());
  for (const Made& made : made_) {
    made.package->calls().freeOpImpl(reinterpret_cast<QnnOpPackage_OpImpl_t>(made.operation));
  }
}

Qnn_ErrorHandle_t ClGraph::failed(const char* what, cl_int code) const {
  device_->cl.clFinish(device_->queue.get());  // it may still read and write what is the client's
  logger_.error("%s: %s (%d)", what, emulator::nameOf(code), code);
  return QNN_GRAPH_ERROR_GENERAL;
}

bool ClGraph::makeBuffer(const Tensor& tensor) {
  const auto elements = static_cast<std::uint32_t>(tensor.elements());
  auto made = Memory::make(*device_, QNN_GPU_MEM_OBJ_TYPE_BUFFER, tensor.dataType(), &elements, 1,
                           "tensor `" + tensor.name() + "`", logger_);
  if (made == nullptr) return false;
  if (tensor.isStatic()) {
    if (made->write(*device_, tensor.data().data()) != CL_SUCCESS) return false;
    made->expect(tensor.data().data());
  }
  memory_[tensor.id()] = std::move(made);
  return true;
}

// --- finalize -------------------------------------------------------------------------------------------------

Qnn_ErrorHandle_t ClGraph::compile(Programs& programs, const Composed& graph,
                                   QnnOpPackage_GraphInfrastructure_t infrastructure) {
  for (const auto& [_, tensor] : graph.tensors) {
    if (tensor->isNative() || tensor->type() == QNN_TENSOR_TYPE_NULL) continue;
    if (!makeBuffer(*tensor)) return QNN_GRAPH_ERROR_FINALIZE_FAILED;
  }
  for (const auto& node : graph.nodes) {
    const Qnn_ErrorHandle_t code =
        node->isBuiltIn() ? addBuiltIn(graph, *node) : addNode(programs, graph, *node, infrastructure);
    if (code != QNN_SUCCESS) return code;
  }
  device_->cl.clFinish(device_->queue.get());
  for (const Tensor* const each : graph.inputs) inputs_.push_back(memory_.at(each->id()).get());
  for (const Tensor* const each : graph.outputs) outputs_.push_back(memory_.at(each->id()).get());
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t ClGraph::addNode(Programs& programs, const Composed& graph, const Node& node,
                                   QnnOpPackage_GraphInfrastructure_t infrastructure) {
  // Where each tensor lies, as far as that is known: what a node before this one has claimed is.
  const QnnGpu_MemoryObject_t unclaimed = [] {
    QnnGpu_MemoryObject_t object = {};
    object.type = QNN_GPU_MEM_OBJ_TYPE_UNCLAIMED;
    object.dataType = QNN_DATATYPE_UNDEFINED;
    object.layout = QNN_GPU_MEM_LAYOUT_UNDEFINED;
    return object;
  }();
  const Qnn_OpConfigV1_t& config = node.v1();
  std::vector<QnnGpu_TensorStorageType_t> storage;
  const auto add = [&](const Qnn_Tensor_t& tensor) {
    if (common(tensor).type == QNN_TENSOR_TYPE_NULL) return;
    const auto found = memory_.find(common(tensor).id);
    storage.push_back({common(tensor).id, found == memory_.end() ? &unclaimed : &found->second->object()});
  };
  for (std::uint32_t i = 0; i < config.numOfInputs; ++i) add(config.inputTensors[i]);
  for (std::uint32_t i = 0; i < config.numOfOutputs; ++i) add(config.outputTensors[i]);
  std::vector<const QnnGpu_TensorStorageType_t*> pointers;
  for (const auto& each : storage) pointers.push_back(&each);
  pointers.push_back(nullptr);
  const Qnn_OpConfig_t* configs[] = {&node.config(), nullptr};
  QnnGpuOpPackage_Node_t given = {0, configs, pointers.data(), 0};

  QnnOpPackage_OpImpl_t made = nullptr;
  const Qnn_ErrorHandle_t code = node.package->calls().createOpImpl(
      infrastructure, reinterpret_cast<QnnOpPackage_Node_t>(&given), &made);
  if (code != QNN_SUCCESS || made == nullptr) {
    logger_.error("node `%s`: createOpImpl of op %s returned %llu", node.name(), config.typeName,
                  static_cast<unsigned long long>(code));
    return QNN_GRAPH_ERROR_FINALIZE_FAILED;
  }
  made_.push_back({node.package, reinterpret_cast<QnnGpu_Operation_t*>(made), {}});
  Made& own = made_.back();
  const Qnn_ErrorHandle_t claimed = claim(graph, node, *own.operation);
  if (claimed != QNN_SUCCESS) return claimed;
  for (auto object = own.operation->memoryObjects; object != nullptr && *object != nullptr; ++object) {
    const QnnGpu_MemoryObject_t& wanted = **object;
    auto scratch = Memory::make(*device_, wanted.type, wanted.dataType, wanted.dimensions, wanted.numDimensions,
                                "a buffer of node `" + std::string(node.name()) + "`", logger_);
    if (scratch == nullptr) return QNN_GRAPH_ERROR_FINALIZE_FAILED;
    own.scratch.push_back(std::move(scratch));
  }
  if (own.operation->kernels == nullptr || *own.operation->kernels == nullptr) {
    logger_.error("node `%s`: op %s has no kernels", node.name(), config.typeName);
    return QNN_GRAPH_ERROR_FINALIZE_FAILED;
  }
  for (auto kernel = own.operation->kernels; *kernel != nullptr; ++kernel) {
    const Qnn_ErrorHandle_t added = addKernel(programs, node, own, **kernel);
    if (added != QNN_SUCCESS) return added;
  }
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t ClGraph::addBuiltIn(const Composed& graph, const Node& node) {
  const Qnn_OpConfigV1_t& config = node.v1();
  std::unique_ptr<BuiltIn> made;
  if (makeBuiltIn(config, logger_, made) != QNN_SUCCESS) return QNN_GRAPH_ERROR_FINALIZE_FAILED;
  Launch step;
  step.title = "node `" + std::string(node.name()) + "`";
  step.onHost = std::make_unique<OnHost>(std::move(made));
  for (std::uint32_t i = 0; i < config.numOfInputs; ++i) {
    const Qnn_TensorV1_t& input = common(config.inputTensors[i]);
    const bool omitted = input.type == QNN_TENSOR_TYPE_NULL;
    step.onHost->addInput(omitted ? nullptr : graph.tensors.at(input.id).get(),
                          omitted ? nullptr : memory_.at(input.id).get());
  }
  const Tensor& output = *graph.tensors.at(common(config.outputTensors[0]).id);
  if (memory_.count(output.id()) == 0 && !makeBuffer(output)) return QNN_GRAPH_ERROR_FINALIZE_FAILED;
  step.onHost->addOutput(output, *memory_.at(output.id()));
  launches_.push_back(std::move(step));
  return QNN_SUCCESS;
}

/// Gives each NATIVE output the memory that its op claims.
Qnn_ErrorHandle_t ClGraph::claim(const Composed& graph, const Node& node, const QnnGpu_Operation_t& operation) {
  const Qnn_OpConfigV1_t& config = node.v1();
  for (auto each = operation.outputClaims; each != nullptr && *each != nullptr; ++each) {
    const QnnGpu_OutputClaim_t& claimed = **each;
    if (claimed.outputIndex >= config.numOfOutputs || claimed.memoryObject == nullptr) {
      logger_.error("node `%s` claims output %u of %u", node.name(), claimed.outputIndex, config.numOfOutputs);
      return QNN_GRAPH_ERROR_FINALIZE_FAILED;
    }
    const Tensor& tensor = *graph.tensors.at(common(config.outputTensors[claimed.outputIndex]).id);
    if (!tensor.isNative()) {
      logger_.error("node `%s` claims output `%s`, which is not NATIVE", node.name(), tensor.name().c_str());
      return QNN_GRAPH_ERROR_FINALIZE_FAILED;
    }
    const QnnGpu_MemoryObject_t& wanted = *claimed.memoryObject;
    auto made = Memory::make(*device_, wanted.type, wanted.dataType, wanted.dimensions, wanted.numDimensions,
                             "tensor `" + tensor.name() + "`", logger_);
    if (made == nullptr) return QNN_GRAPH_ERROR_FINALIZE_FAILED;
    if (made->bytes() * 8 < tensor.elements() * bitsOf(wanted.dataType)) {
      logger_.error("node `%s` claims too little memory for output `%s`", node.name(), tensor.name().c_str());
      return QNN_GRAPH_ERROR_FINALIZE_FAILED;
    }
    memory_[tensor.id()] = std::move(made);
  }
  for (std::uint32_t i = 0; i < config.numOfOutputs; ++i) {
    const Qnn_TensorV1_t& output = common(config.outputTensors[i]);
    if (output.type != QNN_TENSOR_TYPE_NATIVE || memory_.count(output.id) != 0) continue;
    const Tensor& tensor = *graph.tensors.at(output.id);
    if (bitsOf(tensor.dataType()) == 8) {
      logger_.error("node `%s` does not claim its output `%s`: a device would make it an image, and no image has elements "
                    "of the type 0x%04x", node.name(), tensor.name().c_str(), static_cast<unsigned>(tensor.dataType()));
      return QNN_GRAPH_ERROR_FINALIZE_FAILED;
    }
    logger_.warn("node `%s` does not claim its output `%s`: a device may make it an image; here it is a buffer",
                 node.name(), tensor.name().c_str());
    if (!makeBuffer(tensor)) return QNN_GRAPH_ERROR_FINALIZE_FAILED;
  }
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t ClGraph::addKernel(Programs& programs, const Node& node, const Made& made,
                                     const QnnGpu_Kernel_t& kernel) {
  Launch launch;
  launch.title = "node `" + std::string(node.name()) + "`, kernel " + (kernel.name == nullptr ? "" : kernel.name);
  launch.kernel = programs.kernel(kernel, logger_);
  if (!launch.kernel) return QNN_GRAPH_ERROR_FINALIZE_FAILED;
  launch.rank = static_cast<cl_uint>(kernel.globalWorkDim);
  if (launch.rank < 1 || launch.rank > 3) {
    logger_.error("%s has %u global dimensions", launch.title.c_str(), launch.rank);
    return QNN_GRAPH_ERROR_FINALIZE_FAILED;
  }
  for (std::size_t i = 0; i < launch.rank; ++i) {
    launch.global[i] = kernel.globalWorkSizes[i];
    launch.local[i] = i < kernel.localWorkDim ? kernel.localWorkSizes[i] : 0;
    // OpenCL 2.0 has smaller groups at the edge, PoCL has not: there all of them are smaller.
    const bool smallerAtEdge = kernel.buildOptions != nullptr && std::strstr(kernel.buildOptions, "-cl-std=CL2") != nullptr;
    if (smallerAtEdge && launch.local[i] != 0) launch.local[i] = std::gcd(launch.global[i], launch.local[i]);
    launch.hasLocal = launch.hasLocal || launch.local[i] != 0;
  }
  cl_uint takes = 0, passed = 0;
  device_->cl.clGetKernelInfo(launch.kernel.get(), CL_KERNEL_NUM_ARGS, sizeof takes, &takes, nullptr);
  while (kernel.args != nullptr && kernel.args[passed] != nullptr) ++passed;
  if (takes != passed) {
    logger_.error("%s takes %u arguments, the op passes %u", launch.title.c_str(), takes, passed);
    return QNN_GRAPH_ERROR_FINALIZE_FAILED;
  }
  for (cl_uint at = 0; at < passed; ++at) {
    if (!setArgument(node, made, launch, at, *kernel.args[at])) return QNN_GRAPH_ERROR_FINALIZE_FAILED;
  }
  launches_.push_back(std::move(launch));
  return QNN_SUCCESS;
}

Memory* ClGraph::memoryOf(const Node& node, const Made& made, const QnnGpu_KernelArg_t& arg) const {
  const Qnn_OpConfigV1_t& config = node.v1();
  const std::uint32_t index = arg.tensor.tensorIndex;
  const Qnn_Tensor_t* tensor = nullptr;
  switch (arg.type) {
    case QNN_GPU_KERNEL_ARG_TYPE_OP_INPUT_READ:
    case QNN_GPU_KERNEL_ARG_TYPE_OP_INPUT_READWRITE:
      if (index < config.numOfInputs) tensor = &config.inputTensors[index];
      break;
    case QNN_GPU_KERNEL_ARG_TYPE_OP_OUTPUT_WRITE:
      if (index < config.numOfOutputs) tensor = &config.outputTensors[index];
      break;
    case QNN_GPU_KERNEL_ARG_TYPE_OP_TENSOR_PARAM:
      if (index < config.numOfParams && config.params[index].paramType == QNN_PARAMTYPE_TENSOR) {
        tensor = &config.params[index].tensorParam;
      }
      break;
    default: return index < made.scratch.size() ? made.scratch[index].get() : nullptr;
  }
  const auto found = tensor == nullptr ? memory_.end() : memory_.find(common(*tensor).id);
  return found == memory_.end() ? nullptr : found->second.get();
}

bool ClGraph::setArgument(const Node& node, const Made& made, const Launch& launch, cl_uint at,
                          const QnnGpu_KernelArg_t& arg) {
  const bool isMemory = arg.type != QNN_GPU_KERNEL_ARG_TYPE_DATA && arg.type != QNN_GPU_KERNEL_ARG_TYPE_LOCAL &&
                        arg.type != QNN_GPU_KERNEL_ARG_TYPE_NULL_PTR;
  Memory* const memory = isMemory ? memoryOf(node, made, arg) : nullptr;
  if (memory != nullptr && arg.type == QNN_GPU_KERNEL_ARG_TYPE_OP_INPUT_READWRITE) memory->allowWrites();
  if (isMemory && memory == nullptr) {
    logger_.error("%s, argument %u: the op has no tensor %u of this kind", launch.title.c_str(), at,
                  arg.tensor.tensorIndex);
    return false;
  }
  const std::string fault = faultOf(*device_, launch.kernel.get(), at, arg, memory != nullptr && memory->isImage());
  if (!fault.empty()) {
    logger_.error("%s: %s", launch.title.c_str(), fault.c_str());
    return false;
  }
  const cl_mem raw = memory == nullptr ? nullptr : memory->raw();
  std::size_t size = sizeof raw;
  const void* value = &raw;
  if (arg.type == QNN_GPU_KERNEL_ARG_TYPE_DATA) {
    size = sizeOf(arg.data.type);
    value = &arg.data.qnnULong;
  } else if (arg.type == QNN_GPU_KERNEL_ARG_TYPE_LOCAL) {
    size = arg.local.size;
    value = nullptr;
  }
  const cl_int code = device_->cl.clSetKernelArg(launch.kernel.get(), at, size, value);
  if (code != CL_SUCCESS) {
    logger_.error("%s, argument %u: %s (%d)", launch.title.c_str(), at, emulator::nameOf(code), code);
  }
  return code == CL_SUCCESS;
}

// --- execute --------------------------------------------------------------------------------------------------

Qnn_ErrorHandle_t ClGraph::launch(const Launch& each) {
  cl_int code = CL_SUCCESS;
  if (each.onHost != nullptr) {
    code = each.onHost->run(*device_);
  } else {
    code = device_->cl.clEnqueueNDRangeKernel(device_->queue.get(), each.kernel.get(), each.rank, nullptr, each.global,
                                              each.hasLocal ? each.local : nullptr, 0, nullptr, nullptr);
    for (cl_uint i = 0; code == CL_INVALID_WORK_GROUP_SIZE && each.hasLocal && i < each.rank; ++i) {
      if (each.local[i] == 0 || each.global[i] % each.local[i] == 0) continue;
      logger_.error("%s: local size %zu does not divide global size %zu in dimension %u, which OpenCL takes only with "
                    "the build option -cl-std=CL2.0", each.title.c_str(), each.local[i], each.global[i], i);
    }
  }
  return code == CL_SUCCESS ? static_cast<Qnn_ErrorHandle_t>(QNN_SUCCESS) : failed(each.title.c_str(), code);
}

Qnn_ErrorHandle_t ClGraph::execute(const std::vector<const void*>& inputs, const std::vector<void*>& outputs,
                                   Measured* measured) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const cl_int code = inputs_[i]->write(*device_, inputs[i]);
    if (code != CL_SUCCESS) return failed(inputs_[i]->owner().c_str(), code);
    inputs_[i]->expect(inputs[i]);
  }
  std::uint32_t number = 0;
  std::vector<Memory*> all;
  for (const auto& [_, memory] : memory_) all.push_back(memory.get());
  for (const Made& made : made_) {
    for (const auto& scratch : made.scratch) all.push_back(scratch.get());
  }
  for (Memory* const each : all) {
    const cl_int code = each->fillGuards(*device_, {!each->hasContent(), number++}, executions_ > 0);
    if (code != CL_SUCCESS) return failed(each->owner().c_str(), code);
  }
  for (const Launch& each : launches_) {
    const auto begun = Measured::Clock::now();
    const Qnn_ErrorHandle_t code = launch(each);
    if (code != QNN_SUCCESS) return code;
    if (measured == nullptr) continue;
    device_->cl.clFinish(device_->queue.get());
    measured->add(each.title, begun);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const cl_int code = outputs_[i]->read(*device_, outputs[i]);
    if (code != CL_SUCCESS) return failed(outputs_[i]->owner().c_str(), code);
  }
  const cl_int code = device_->cl.clFinish(device_->queue.get());
  if (code != CL_SUCCESS) return failed("execution", code);
  bool whole = true;
  for (const Memory* const each : all) whole = each->isWhole(*device_, logger_) && whole;
  ++executions_;
  return whole ? QNN_SUCCESS : QNN_GRAPH_ERROR_GENERAL;
}

}  // namespace emulator
