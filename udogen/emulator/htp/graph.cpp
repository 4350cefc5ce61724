#include "graph.hpp"

#include <cstring>
#include <thread>

#include "built_in.hpp"
#include "layout.hpp"
#include "signal.hpp"

namespace emulator {
namespace {

constexpr unsigned char uncleared = 0xCD;  // what memory holds that HTP does not clear

/// Copies a region between two row-major tensors, row by row.
void copyRegion(const QHPI_Shape& extent, std::size_t element, const unsigned char* from, const QHPI_Shape& fromShape,
                const QHPI_Shape& fromStart, unsigned char* to, const QHPI_Shape& toShape, const QHPI_Shape& toStart) {
  const std::uint32_t rank = extent.rank;
  if (rank == 0) return void(std::memcpy(to, from, element));
  std::uint32_t at[QHPI_MAX_RANK] = {};
  const std::size_t rows = countOf(extent) / extent.dims[rank - 1];
  for (std::size_t row = 0; row < rows; ++row) {
    std::size_t source = 0, target = 0;
    for (std::uint32_t i = 0; i < rank; ++i) {
      source = source * fromShape.dims[i] + fromStart.dims[i] + at[i];
      target = target * toShape.dims[i] + toStart.dims[i] + at[i];
    }
    std::memcpy(to + target * element, from + source * element, extent.dims[rank - 1] * element);
    for (std::uint32_t i = rank - 1; i-- > 0;) {
      if (++at[i] < extent.dims[i]) break;
      at[i] = 0;
    }
  }
}

}  // namespace

// --- finalize -------------------------------------------------------------------------------------------------

Qnn_ErrorHandle_t HtpGraph::prepareAll(const Composed& graph, std::vector<std::string>* stages,
                                       std::vector<KernelChoice>& chosen) {
  Preparation& preparation = *preparation_;
  const auto note = [&](const char* stage) {
    if (stages != nullptr) stages->push_back(toJson(preparation, stage, chosen));
  };
  Qnn_ErrorHandle_t code = preparation.compose(graph);
  if (code != QNN_SUCCESS) return code;
  note("composed");
  code = preparation.rewrite(true);
  if (code != QNN_SUCCESS) return code;
  note("early rewrites");
  code = preparation.rewrite(false);
  if (code != QNN_SUCCESS) return code;
  note("late rewrites");
  for (const QHPI_Op* const op : preparation.order()) {
    if (op->kind != OpKind::op) continue;
    KernelChoice one;
    code = choose(*op, logger_, one);
    if (code != QNN_SUCCESS) return code;
    chosen.push_back(std::move(one));
  }
  note("kernels");
  return QNN_SUCCESS;
}

/// Gives every value its memory: constants with the weights of the context, what lies between ops in its spill-fill
/// buffer, the rest in memory of the graph.
void HtpGraph::layMemory(const std::vector<QHPI_Op*>& order) {
  std::size_t between = 0;
  std::uint32_t number = 0;
  std::vector<std::pair<Value*, std::size_t>> spilled;
  for (const QHPI_Op* const op : order) {
    if (op->kind == OpKind::shape) continue;
    for (std::uint32_t i = 0; i < op->outputs.size(); ++i) {
      Value& value = values_[{op, i}];
      value.bytes = bytesOf(op->outputs[i]);
      if (op->kind == OpKind::constant) {
        value.data = const_cast<unsigned char*>(shared_.place(op->data));
      } else if (op->kind == OpKind::input) {
        owned_.emplace_back(value.bytes + 2 * guardBytes);
        value.data = owned_.back().data() + guardBytes;
        value.isGuarded = value.isGuardedBefore = true;
        value.guard = {false, number++};
      } else {
        value.isGuarded = true;
        value.guard = {true, number++};
        spilled.emplace_back(&value, between);
        between += roundUp(value.bytes + guardBytes, valueAlignment);
      }
    }
  }
  shared_.needSpill(between);
  unsigned char* base = shared_.spill.data;
  std::size_t before = 0;  // for the guard before each; a spill-fill buffer of the client has none
  if (base == nullptr || between > shared_.spill.size) {
    before = valueAlignment;
    owned_.emplace_back(between + before * spilled.size());
    base = owned_.back().data();
  }
  for (const auto& [value, offset] : spilled) {
    base += before;
    value->data = base + offset;
    value->isGuardedBefore = before != 0;
    std::memset(value->data, uncleared, value->bytes);
  }
}

void HtpGraph::addKernel(KernelChoice chosen, std::uint32_t threads) {
  auto step = std::make_unique<Step>();
  const QHPI_Op& op = *chosen.op;
  const QHPI_Kernel_v1& kernel = *chosen.kernel;
  step->title = "node `" + op.node + "`, kernel " + kernel.function_name;
  const auto lay = [&](QHPI_Tensor& tensor, const Value& value) {
    tensor.data = value.data;
    if (!tensor.isIndirect) return;
    const std::size_t bytes = blockBytes(tensor.layout, sizeOfElement(tensor.definition.type));
    const std::size_t count = blocksOf(tensor.layout, tensor.definition.shape);
    step->owned.emplace_back(bytes * count);
    for (std::size_t i = 0; i < count; ++i) tensor.blocks.push_back(step->owned.back().data() + i * bytes);
    std::memset(step->owned.back().data(), 0, bytes * count);
  };
  for (std::size_t i = 0; i < chosen.outputs.size(); ++i) {
    const Value& value = values_.at({&op, static_cast<std::uint32_t>(i)});
    lay(*chosen.outputs[i], value);
    step->outputs.push_back(chosen.outputs[i].get());
    step->outputData.push_back(value.data);
  }
  for (std::size_t i = 0; i < chosen.inputs.size(); ++i) {
    const QHPI_OpRef& from = op.inputs[i];
    step->inputs.push_back(chosen.inputs[i].get());
    step->inputData.push_back(nullptr);
    if (from.op->kind == OpKind::shape) continue;
    const Value& value = values_.at({from.op, from.output_number});
    lay(*chosen.inputs[i], value);
    step->inputData.back() = value.data;
  }
  if (kernel.source_destructive && !chosen.inputs.empty() && !chosen.outputs.empty()) {
    QHPI_Tensor &in = *chosen.inputs[0], &out = *chosen.outputs[0];
    step->inPlace = !in.isIndirect && !out.isIndirect && in.data != nullptr &&
                    bytesOf(in.definition) == bytesOf(out.definition);
    if (step->inPlace) in.data = out.data;
  }
  if (kernel.multithreaded) step->slices = threads;
  if (kernel.sync_block_size != 0) {
    step->owned.emplace_back(kernel.sync_block_size);
    step->shared = step->owned.back().data();
  }
  if (kernel.do_precomputation_function != nullptr && kernel.function_with_precomputed_data != nullptr) {
    step->owned.emplace_back(kernel.precomputed_data_size);
    step->prepared = step->owned.back().data();
    std::memset(step->prepared, uncleared, kernel.precomputed_data_size);
    // Only constants that the kernel takes from DDR have data yet.
    std::vector<std::pair<QHPI_Tensor*, void*>> hidden;
    const auto hide = [&](QHPI_Tensor* tensor) {
      hidden.emplace_back(tensor, tensor->data);
      tensor->data = nullptr;
    };
    for (const auto& each : chosen.outputs) hide(each.get());
    for (std::size_t i = 0; i < chosen.inputs.size(); ++i) {
      if (!chosen.isReadable[i]) hide(chosen.inputs[i].get());
    }
    QHPI_RuntimeHandle handle = {1, 0, step->shared};
    const std::uint32_t code = kernel.do_precomputation_function(
        &handle, step->prepared, static_cast<std::uint32_t>(step->outputs.size()), step->outputs.data(),
        static_cast<std::uint32_t>(step->inputs.size()), step->inputs.data());
    if (code != QHPI_Success) {
      logger_.warn("%s: its preparation returned %u, which HTP ignores", step->title.c_str(), code);
    }
    for (const auto& [tensor, data] : hidden) tensor->data = data;
  }
  step->chosen = std::move(chosen);
  steps_.push_back(std::move(step));
}

/// Work of HTP itself: cutting, joining and copying tensors, and built-in ops.
Qnn_ErrorHandle_t HtpGraph::addWork(const QHPI_Op& op) {
  auto step = std::make_unique<Step>();
  step->title = "node `" + op.node + "`, " + op.name;
  std::vector<unsigned char*> in, out;
  for (const QHPI_OpRef& each : op.inputs) {
    in.push_back(each.op->kind == OpKind::shape ? nullptr : values_.at({each.op, each.output_number}).data);
  }
  for (std::uint32_t i = 0; i < op.outputs.size(); ++i) out.push_back(values_.at({&op, i}).data);
  const QHPI_Op* const it = &op;
  const std::size_t element = sizeOfElement(op.outputs[0].type);
  QHPI_Shape zero = {};
  zero.rank = op.outputs[0].shape.rank;
  if (op.kind == OpKind::slice) {
    step->work = [=] {
      const QHPI_Shape& shape = it->outputs[0].shape;
      copyRegion(shape, element, in[0], definitionOf(it->inputs[0]).shape, it->start, out[0], shape, zero);
    };
  } else if (op.kind == OpKind::concat) {
    step->work = [=] {
      QHPI_Shape start = zero;
      for (std::size_t i = 0; i < in.size(); ++i) {
        const QHPI_Shape& part = definitionOf(it->inputs[i]).shape;
        copyRegion(part, element, in[i], part, zero, out[0], it->outputs[0].shape, start);
        start.dims[it->axis] += part.dims[it->axis];
      }
    };
  } else if (op.kind == OpKind::copy) {
    step->work = [=] {
      for (std::size_t i = 0; i < in.size(); ++i) std::memcpy(out[i], in[i], bytesOf(it->outputs[i]));
    };
  } else {
    std::unique_ptr<BuiltIn> made;
    const Qnn_OpConfigV1_t& config = op.origin->v1();
    const Qnn_ErrorHandle_t code = makeBuiltIn(config, logger_, made);
    if (code != QNN_SUCCESS) return code;
    // Built-in ops take tensors as clients pass them, with signs.
    const std::shared_ptr<BuiltIn> builtIn = std::move(made);
    step->work = [=, &config] {
      std::vector<std::vector<unsigned char>> given(in.size());
      std::vector<const void*> from;
      for (std::size_t i = 0; i < in.size(); ++i) {
        if (in[i] == nullptr) {
          from.push_back(nullptr);
          continue;
        }
        given[i].resize(bytesOf(definitionOf(it->inputs[i])));
        flipSigns(common(config.inputTensors[i]).dataType, given[i].size(), in[i], given[i].data());
        from.push_back(given[i].data());
      }
      std::vector<void*> to(out.begin(), out.end());
      builtIn->execute(from.data(), to.data());
      for (std::size_t i = 0; i < out.size(); ++i) {
        std::vector<unsigned char> made(out[i], out[i] + bytesOf(it->outputs[i]));
        flipSigns(common(config.outputTensors[i]).dataType, made.size(), made.data(), out[i]);
      }
    };
  }
  steps_.push_back(std::move(step));
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t HtpGraph::compile(const Composed& graph, std::uint32_t threads, std::vector<std::string>* stages) {
  preparation_ = std::make_unique<Preparation>(logger_);
  std::vector<KernelChoice> chosen;
  Qnn_ErrorHandle_t code = prepareAll(graph, stages, chosen);
  if (code != QNN_SUCCESS) return code;
  const std::vector<QHPI_Op*> order = preparation_->order();
  layMemory(order);
  std::size_t next = 0;
  for (const QHPI_Op* const op : order) {
    if (op->kind == OpKind::op) {
      addKernel(std::move(chosen[next++]), threads);
    } else if (op->kind != OpKind::input && op->kind != OpKind::constant && op->kind != OpKind::shape) {
      code = addWork(*op);
      if (code != QNN_SUCCESS) return code;
    }
  }
  for (const Tensor* const tensor : graph.inputs) {
    Value value;
    for (const auto& [key, each] : values_) {
      if (key.first->kind == OpKind::input && key.first->tensor == tensor) value = each;
    }
    inputs_.emplace_back(tensor, value);  // without data where no node needs it
  }
  for (const Preparation::Result& result : preparation_->results) {
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
  if (step.work) return step.work(), QNN_SUCCESS;
  const QHPI_Kernel_v1& kernel = *step.chosen.kernel;
  if (step.inPlace) std::memcpy(step.outputData[0], step.inputData[0], bytesOf(step.outputs[0]->definition));
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    const QHPI_Tensor& tensor = *step.inputs[i];
    if (!tensor.isIndirect) continue;
    toBlocks(tensor.layout, tensor.definition.shape, sizeOfElement(tensor.definition.type), step.inputData[i],
             tensor.blocks.data());
  }
  if (step.shared != nullptr) std::memset(step.shared, 0, kernel.sync_block_size);
  step.given.resize(step.inputs.size());
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    const unsigned char* const data = step.inputData[i];
    if (data != nullptr) step.given[i].assign(data, data + bytesOf(step.inputs[i]->definition));
  }
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
  if (!areTensorsWhole(step)) return QNN_GRAPH_ERROR_GENERAL;
  for (std::size_t i = 0; i < step.outputs.size(); ++i) {
    const QHPI_Tensor& tensor = *step.outputs[i];
    if (!tensor.isIndirect) continue;
    fromBlocks(tensor.layout, tensor.definition.shape, sizeOfElement(tensor.definition.type), step.outputData[i],
               tensor.blocks.data());
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
  if (!shared_.areWeightsWhole()) {
    logger_.error("the external weights buffer was changed: only QNN may write into it");
    return QNN_GRAPH_ERROR_GENERAL;
  }
  fillGuards();
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const auto& [tensor, value] = inputs_[i];
    if (value.data != nullptr) flipSigns(tensor->dataType(), value.bytes, inputs[i], value.data);
  }
  for (const auto& step : steps_) {
    Qnn_ErrorHandle_t code = stopped();
    if (code != QNN_SUCCESS) return code;
    const auto begun = Measured::Clock::now();
    code = run(*step);
    if (code != QNN_SUCCESS) return code;
    if (measured != nullptr) measured->add(step->title, begun);
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const auto& [tensor, value] = outputs_[i];
    flipSigns(tensor->dataType(), value.bytes, value.data, outputs[i]);
  }
  ++executions_;
  return QNN_SUCCESS;
}

}  // namespace emulator
