// The functions of QHPI that look at a graph and change it while it is prepared.
#include <cstring>

#include "layout.hpp"
#include "preparation.hpp"
#include "registry.hpp"

#define QHPI_EXPORT extern "C" __attribute__((visibility("default")))

namespace emulator {
namespace {

QHPI_OpRef refTo(const QHPI_Op* op) { return {op, 0}; }

/// An error node of the graph of `root`.
QHPI_Op* refuse(const QHPI_Op* root, const std::string& why) { return root->graph->fail(why, root); }

bool exists(const QHPI_OpRef& ref) {
  return ref.op != nullptr && ref.op->kind != OpKind::error && ref.output_number < ref.op->outputs.size();
}

}  // namespace
}  // namespace emulator

using namespace emulator;  // what follows is C

QHPI_EXPORT const char* qhpi_op_name(const QHPI_Op* op) {
  const bool own = op->kind == OpKind::op || op->kind == OpKind::error || op->kind == OpKind::builtIn;
  return own ? op->name.c_str() : "<internal>";
}

QHPI_EXPORT std::uint32_t qhpi_op_num_inputs(const QHPI_Op* op) { return static_cast<std::uint32_t>(op->inputs.size()); }

QHPI_EXPORT QHPI_OpRef qhpi_op_input(const QHPI_Op* op, std::uint32_t index) {
  if (index < op->inputs.size()) return op->inputs[index];
  return refTo(refuse(op, op->name + " has no input " + std::to_string(index)));
}

QHPI_EXPORT std::uint32_t qhpi_op_num_outputs(const QHPI_Op* op) {
  return static_cast<std::uint32_t>(op->outputs.size());
}

QHPI_EXPORT QHPI_OutputDef qhpi_op_output(const QHPI_Op* op, std::uint32_t position) {
  if (position < op->outputs.size()) return op->outputs[position];
  QHPI_OutputDef none = {};
  none.type = QHPI_PrepareError;
  none.quant_parameters = {INT32_MAX, 3.402823466e+38f};
  none.shape.rank = UINT32_MAX;
  return none;
}

QHPI_EXPORT std::uint32_t qhpi_op_is_constant(const QHPI_Op* op) { return op->kind == OpKind::constant; }

QHPI_EXPORT const void* qhpi_op_constant_data(const QHPI_Op* op) {
  return op->kind == OpKind::constant ? op->data.data() : nullptr;
}

QHPI_EXPORT const QHPI_Op* qhpi_op_create_constant(const QHPI_Op* root, const QHPI_OutputDef* output, std::uint32_t size,
                                                  const void* data) {
  if (output == nullptr || data == nullptr || bytesOf(*output) != size || output->shape.rank > QHPI_MAX_RANK) {
    const std::string needs = output == nullptr ? "no definition" : std::to_string(bytesOf(*output)) + " bytes";
    return refuse(root, "a constant of " + needs + " was given " + std::to_string(size));
  }
  QHPI_Op* const made = root->graph->make(OpKind::constant, "$Const", root);
  made->outputs.push_back(*output);
  const auto* const bytes = static_cast<const unsigned char*>(data);
  made->data.assign(bytes, bytes + size);
  made->isParam = true;
  return made;
}

QHPI_EXPORT QHPI_OpRef qhpi_op_create_shape(const QHPI_Op* root, const QHPI_Shape* shape) {
  QHPI_Op* const made = root->graph->make(OpKind::shape, "$Shape", root);
  made->outputs.push_back({QHPI_UNKNOWN, {0, 1.0f}, *shape});
  return refTo(made);
}

QHPI_EXPORT const QHPI_Op* qhpi_op_create(const QHPI_Op* root, const char* name, std::uint32_t inputCount,
                                         const QHPI_OpRef* inputs, std::uint32_t outputCount,
                                         const QHPI_OutputDef* outputs) {
  const std::string called = name == nullptr ? "" : name;
  const QHPI_OpInfo_v1* const info = registry().find(called);
  if (info == nullptr) return refuse(root, "no package has registered an op `" + called + "`");
  if (outputCount == 0 || outputs == nullptr) return refuse(root, "a new " + called + " has no outputs");
  for (std::uint32_t i = 0; i < inputCount; ++i) {
    if (inputs[i].op != nullptr && inputs[i].op->kind == OpKind::error) return inputs[i].op;
    if (!exists(inputs[i])) return refuse(root, "input " + std::to_string(i) + " of a new " + called + " does not exist");
  }
  for (std::uint32_t i = 0; i < outputCount; ++i) {
    if (sizeOfElement(outputs[i].type) != 0 && outputs[i].shape.rank <= QHPI_MAX_RANK && bytesOf(outputs[i]) != 0) continue;
    return refuse(root, "output " + std::to_string(i) + " of a new " + called + " has no type or no shape");
  }
  QHPI_Op* const made = root->graph->make(OpKind::op, called, root);
  made->info = info;
  made->inputs.assign(inputs, inputs + inputCount);
  made->outputs.assign(outputs, outputs + outputCount);
  return made;
}

QHPI_EXPORT QHPI_StatusCode qhpi_option_int(const QHPI_Op*, const char* name, std::int32_t* value) {
  const std::string wanted = name == nullptr ? "" : name;
  if (value == nullptr || (wanted != "tcm_size" && wanted != "tcm_size_for_tiling")) return QHPI_Unsupported;
  *value = 4 << 20;
  return QHPI_Success;
}

QHPI_EXPORT std::uint32_t qhpi_op_num_uses(const QHPI_Op* op) { return op->graph->uses(op); }

QHPI_EXPORT std::uint32_t qhpi_op_producer_for(const QHPI_Op* op, const char* name) {
  for (const QHPI_Op* const each : op->graph->order()) {
    for (const QHPI_OpRef& input : each->inputs) {
      if (input.op == op && name != nullptr && std::strcmp(qhpi_op_name(each), name) == 0) return 1;
    }
  }
  return 0;
}

QHPI_EXPORT const QHPI_Op* qhpi_op_create_multi_output(std::uint32_t count, const QHPI_OpRef* inputs) {
  if (count == 0 || inputs == nullptr || inputs[0].op == nullptr) return nullptr;
  QHPI_Op* const made = inputs[0].op->graph->make(OpKind::copy, "$MultiOutput", inputs[0].op);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!exists(inputs[i])) return refuse(inputs[0].op, "input " + std::to_string(i) + " of a copy does not exist");
    made->inputs.push_back(inputs[i]);
    made->outputs.push_back(definitionOf(inputs[i]));
  }
  return made;
}

QHPI_EXPORT QHPI_OpRef qhpi_op_slice(QHPI_OpRef ref, const QHPI_Shape* start, const QHPI_Shape* extent) {
  if (ref.op == nullptr || !exists(ref)) return ref;
  const QHPI_OutputDef& from = definitionOf(ref);
  bool inside = start->rank == from.shape.rank && extent->rank == from.shape.rank;
  for (std::uint32_t i = 0; inside && i < from.shape.rank; ++i) {
    const std::uint64_t end = std::uint64_t{start->dims[i]} + extent->dims[i];
    inside = extent->dims[i] != 0 && end <= from.shape.dims[i];
  }
  if (!inside) {
    return refTo(refuse(ref.op, "a slice of " + textOf(*extent) + " at " + textOf(*start) + " is not inside of " +
                                    textOf(from.shape)));
  }
  QHPI_Op* const made = ref.op->graph->make(OpKind::slice, "$Slice", ref.op);
  made->inputs.push_back(ref);
  made->outputs.push_back({from.type, from.quant_parameters, *extent});
  made->start = *start;
  return refTo(made);
}

QHPI_EXPORT QHPI_OpRef qhpi_op_concat(std::uint32_t axis, std::uint32_t count, const QHPI_OpRef* inputs) {
  if (count == 0 || inputs == nullptr || !exists(inputs[0])) {
    return count == 0 || inputs == nullptr ? QHPI_OpRef{nullptr, 0} : inputs[0];
  }
  QHPI_OutputDef whole = definitionOf(inputs[0]);
  if (axis >= whole.shape.rank) return refTo(refuse(inputs[0].op, "it has no axis " + std::to_string(axis)));
  for (std::uint32_t i = 1; i < count; ++i) {
    if (!exists(inputs[i])) return inputs[i];
    const QHPI_OutputDef& each = definitionOf(inputs[i]);
    QHPI_Shape like = each.shape;
    if (axis < like.rank) like.dims[axis] = definitionOf(inputs[0]).shape.dims[axis];
    const bool same = each.type == whole.type && sameShape(like, definitionOf(inputs[0]).shape) &&
                      each.quant_parameters.zero_offset == whole.quant_parameters.zero_offset &&
                      each.quant_parameters.stepsize == whole.quant_parameters.stepsize;
    if (!same) {
      return refTo(refuse(inputs[0].op, "what is concatenated differs in type, quantization or shape: " +
                                            textOf(whole.shape) + " and " + textOf(each.shape)));
    }
    whole.shape.dims[axis] += each.shape.dims[axis];
  }
  QHPI_Op* const made = inputs[0].op->graph->make(OpKind::concat, "$Concat", inputs[0].op);
  made->inputs.assign(inputs, inputs + count);
  made->outputs.push_back(whole);
  made->axis = axis;
  return refTo(made);
}

QHPI_EXPORT std::uint32_t qhpi_op_is_error(const QHPI_Op* op) { return op == nullptr || op->kind == OpKind::error; }

QHPI_EXPORT const char* qhpi_op_error_description(const QHPI_Op* op) {
  return op == nullptr ? "unknown op" : op->message.c_str();
}

QHPI_EXPORT std::uint32_t qhpi_output_is_error(const QHPI_OutputDef* output) {
  return output == nullptr || output->type == QHPI_PrepareError;
}

QHPI_EXPORT const char* qhpi_output_error_description(const QHPI_Op*, const QHPI_OutputDef*) {
  return "invalid error reference";
}

QHPI_EXPORT const QHPI_Op* qhpi_op_create_error(const QHPI_Op* root, const char* description) {
  return root->graph->fail(description == nullptr ? "no reason given" : description, root);
}
