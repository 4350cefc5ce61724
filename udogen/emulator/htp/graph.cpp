#include "graph.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

#include "built_in.hpp"

namespace emulator {

constexpr std::size_t overread = 128;  // kernels may read a vector of HVX too much

// --- finalize -------------------------------------------------------------------------------------------------

/// Gives every value its memory: constants with the weights of the context, what lies between ops in its spill-fill
/// buffer, inputs in memory of the graph.
void HtpGraph::layMemory() {
  for (const QHPI_Op* const input : preparation_.inputs) {
    const std::size_t bytes = bytesOf(input->outputs[0]);
    owned_.emplace_back(bytes + overread);
    values_[{input, 0}] = {owned_.back().data(), bytes};
  }
  std::size_t between = 0;
  std::vector<std::pair<Value*, std::size_t>> spilled;
  for (const QHPI_Op* const op : preparation_.ops) {
    for (const QHPI_OpRef& input : op->inputs) {
      if (input.op->kind != OpKind::constant || values_.count({input.op, 0}) != 0) continue;
      values_[{input.op, 0}] = {const_cast<unsigned char*>(shared_.place(input.op->data)), input.op->data.size()};
    }
    for (std::uint32_t i = 0; i < op->outputs.size(); ++i) {
      Value& value = values_[{op, i}];
      value.bytes = bytesOf(op->outputs[i]);
      spilled.emplace_back(&value, between);
      between += roundUp(value.bytes + overread, valueAlignment);
    }
  }
  shared_.needSpill(between);
  unsigned char* base = shared_.spill.data;
  if (base == nullptr) {
    owned_.emplace_back(between);
    base = owned_.back().data();
  }
  constexpr unsigned char uncleared = 0xCD;
  for (const auto& [value, offset] : spilled) {
    value->data = base + offset;
    std::memset(value->data, uncleared, value->bytes);
  }
}

unsigned char* HtpGraph::dataOf(const QHPI_OpRef& ref) const {
  return ref.op->kind == OpKind::missing ? nullptr : values_.at({ref.op, ref.output_number}).data;
}

void HtpGraph::addKernel(KernelChoice chosen, std::uint32_t threads) {
  auto step = std::make_unique<Step>();
  step->chosen = std::move(chosen);
  const QHPI_Op& op = *step->chosen.op;
  const QHPI_Kernel_v1& kernel = *step->chosen.kernel;
  std::vector<QHPI_Tensor>&inputs = step->chosen.inputs, &outputs = step->chosen.outputs;
  step->title = "node `" + op.node + "`, kernel " + kernel.function_name;
  for (std::uint32_t i = 0; i < outputs.size(); ++i) {
    outputs[i].data = values_.at({&op, i}).data;
    step->outputs.push_back(&outputs[i]);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i].data = dataOf(op.inputs[i]);
    step->inputs.push_back(&inputs[i]);
  }
  const bool fits = !inputs.empty() && !outputs.empty() && bytesOf(inputs[0].definition) == bytesOf(outputs[0].definition);
  if (kernel.source_destructive && fits && inputs[0].data != nullptr) {
    step->overwritten = inputs[0].data;
    inputs[0].data = outputs[0].data;
  }
  if (kernel.multithreaded) step->slices = threads;
  if (kernel.sync_block_size != 0) {
    step->owned.emplace_back(kernel.sync_block_size);
    step->shared = step->owned.back().data();
  }
  if (kernel.function_with_precomputed_data != nullptr) prepare(*step);
  steps_.push_back(std::move(step));
}

/// Calls the preparation of a kernel, which keeps the tensors.  Only constants that it takes from DDR have data yet.
void HtpGraph::prepare(Step& step) const {
  const QHPI_Kernel_v1& kernel = *step.chosen.kernel;
  step.owned.emplace_back(kernel.precomputed_data_size);
  step.prepared = step.owned.back().data();
  std::vector<QHPI_Tensor>&inputs = step.chosen.inputs, &outputs = step.chosen.outputs;
  const std::vector<QHPI_Tensor> laidInputs = inputs, laidOutputs = outputs;
  for (QHPI_Tensor& each : outputs) each.data = nullptr;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool isConstant = step.chosen.op->inputs[i].op->kind == OpKind::constant;
    const QHPI_Tensor_Signature_v1& wanted = signatureOf(kernel.input_signature, kernel.min_inputs, i);
    if (!isConstant || wanted.mem_placement != QHPI_MemLoc_DDR_Only) inputs[i].data = nullptr;
  }
  QHPI_RuntimeHandle handle = {1, 0, step.shared};
  const std::uint32_t code = kernel.do_precomputation_function(
      &handle, step.prepared, static_cast<std::uint32_t>(outputs.size()), step.outputs.data(),
      static_cast<std::uint32_t>(inputs.size()), step.inputs.data());
  if (code != QHPI_Success) {
    logger_.warn("%s: its preparation returned %u, which HTP ignores", step.title.c_str(), code);
  }
  std::copy(laidInputs.begin(), laidInputs.end(), inputs.begin());
  std::copy(laidOutputs.begin(), laidOutputs.end(), outputs.begin());
}

Qnn_ErrorHandle_t HtpGraph::addBuiltIn(const QHPI_Op& op) {
  auto step = std::make_unique<Step>();
  step->title = "node `" + op.node + "`, " + op.name;
  std::unique_ptr<BuiltIn> own;
  const Qnn_OpConfigV1_t& config = op.origin->v1();
  const Qnn_ErrorHandle_t code = makeBuiltIn(config, logger_, own);
  if (code != QNN_SUCCESS) return code;
  std::vector<unsigned char*> in, out;
  for (const QHPI_OpRef& each : op.inputs) in.push_back(dataOf(each));
  for (std::uint32_t i = 0; i < op.outputs.size(); ++i) out.push_back(values_.at({&op, i}).data);
  // Built-in ops take tensors as clients pass them, with signs.
  step->builtIn = [=, &op, &config, builtIn = std::shared_ptr<BuiltIn>(std::move(own))] {
    std::vector<std::vector<unsigned char>> given(in.size());
    std::vector<const void*> from(in.size(), nullptr);
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in[i] == nullptr) continue;
      given[i].resize(bytesOf(definitionOf(op.inputs[i])));
      flipSigns(common(config.inputTensors[i]).dataType, given[i].size(), in[i], given[i].data());
      from[i] = given[i].data();
    }
    std::vector<void*> to(out.begin(), out.end());
    builtIn->execute(from.data(), to.data());
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::vector<unsigned char> written(out[i], out[i] + bytesOf(op.outputs[i]));
      flipSigns(common(config.outputTensors[i]).dataType, written.size(), written.data(), out[i]);
    }
  };
  steps_.push_back(std::move(step));
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t HtpGraph::compile(const Composed& graph, std::uint32_t threads) {
  Qnn_ErrorHandle_t code = preparation_.compose(graph);
  if (code != QNN_SUCCESS) return code;
  std::vector<KernelChoice> kernels(preparation_.ops.size());
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const QHPI_Op& op = *preparation_.ops[i];
    if (op.kind == OpKind::op) code = choose(op, logger_, kernels[i]);
    if (code != QNN_SUCCESS) return code;
  }
  layMemory();
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i].kernel != nullptr) {
      addKernel(std::move(kernels[i]), threads);
    } else {
      code = addBuiltIn(*preparation_.ops[i]);
      if (code != QNN_SUCCESS) return code;
    }
  }
  for (const Tensor* const tensor : graph.inputs) {
    for (const QHPI_Op* const input : preparation_.inputs) {
      if (input->tensor == tensor) inputs_.emplace_back(tensor, values_.at({input, 0}));
    }
  }
  for (const Preparation::Result& result : preparation_.results) {
    outputs_.emplace_back(result.tensor, values_.at({result.from.op, result.from.output_number}));
  }
  return QNN_SUCCESS;
}

// --- execute --------------------------------------------------------------------------------------------------

std::uint32_t HtpGraph::call(Step& step, std::uint32_t slice) const noexcept {
  const QHPI_Kernel_v1& kernel = *step.chosen.kernel;
  QHPI_RuntimeHandle handle = {step.slices, slice, step.shared};
  if (step.prepared != nullptr) return kernel.function_with_precomputed_data(&handle, step.prepared);
  return kernel.function(&handle, static_cast<std::uint32_t>(step.outputs.size()), step.outputs.data(),
                         static_cast<std::uint32_t>(step.inputs.size()), step.inputs.data());
}

Qnn_ErrorHandle_t HtpGraph::run(Step& step) {
  if (step.builtIn) return step.builtIn(), QNN_SUCCESS;
  if (step.overwritten != nullptr) {
    std::memcpy(step.outputs[0]->data, step.overwritten, bytesOf(step.outputs[0]->definition));
  }
  if (step.shared != nullptr) std::memset(step.shared, 0, step.chosen.kernel->sync_block_size);
  std::vector<std::uint32_t> statuses(step.slices, QHPI_Success);
  std::vector<std::thread> others;
  for (std::uint32_t slice = 1; slice < step.slices; ++slice) {
    others.emplace_back([this, &step, &statuses, slice] { statuses[slice] = call(step, slice); });
  }
  statuses[0] = call(step, 0);
  for (std::thread& each : others) each.join();
  for (const std::uint32_t status : statuses) {
    if (status == QHPI_Success) continue;
    logger_.error("%s returned %u", step.title.c_str(), status);
    return QNN_GRAPH_ERROR_GENERAL;
  }
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t HtpGraph::execute(const std::vector<const void*>& inputs, const std::vector<void*>& outputs,
                                    Measured* measured) {
  std::unique_lock<std::mutex> turn;
  if (shared_.spill.turn != nullptr) {
    turn = std::unique_lock<std::mutex>(*shared_.spill.turn, std::try_to_lock);
    if (!turn.owns_lock()) {
      logger_.error("another graph is being executed that shares this external spill-fill buffer: graphs that share one "
                    "cannot be executed in parallel");
      return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
    }
  }
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const auto& [tensor, value] = inputs_[i];
    flipSigns(tensor->dataType(), value.bytes, inputs[i], value.data);
  }
  for (const auto& step : steps_) {
    const auto begun = Measured::Clock::now();
    const Qnn_ErrorHandle_t code = run(*step);
    if (code != QNN_SUCCESS) return code;
    if (measured != nullptr) measured->add(step->title, begun);
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const auto& [tensor, value] = outputs_[i];
    flipSigns(tensor->dataType(), value.bytes, value.data, outputs[i]);
  }
  return QNN_SUCCESS;
}

}  // namespace emulator
