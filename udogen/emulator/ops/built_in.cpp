// The rows of the built-in ops: what a node of each takes by the public operation definitions.
#include "built_in.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "nodes.hpp"
#include "QnnOpPackage.h"
#include "tensor.hpp"

namespace emulator {
namespace {

enum class Takes { none, count, truth, real, tensor };

struct ParamRow {
  const char* name;
  Takes takes;
  bool mandatory;
};

constexpr unsigned numbers = floats | fixedPoint;
constexpr unsigned all = floats | fixedPoint | integers | truths;

struct OpRow {
  const char* name;
  std::uint32_t fewest, most;  // inputs
  unsigned families;           // of all tensors
  bool alike;                  // all tensors are of one type
  ParamRow params[2];
  Make make;
};

constexpr ParamRow none = {nullptr, Takes::none, false};
constexpr std::uint32_t many = 0xffff;

constexpr OpRow rows[] = {
    {"Concat", 1, many, all, true, {{"axis", Takes::count, true}, none}, makeConcat},
    {"ElementWiseAdd", 2, 2, numbers | integers, true, {none, none}, makeAdd},
    {"ElementWiseMultiply", 2, 2, numbers | integers, true, {none, none}, makeMultiply},
    {"MatMul", 2, 3, numbers, false,
     {{"transpose_in0", Takes::truth, false}, {"transpose_in1", Takes::truth, false}}, makeMatMul},
    {"Relu", 1, 1, numbers, true, {none, none}, makeRelu},
    {"Reshape", 1, 1, all, true, {none, none}, makeReshape},
    {"Softmax", 1, 1, numbers, true, {{"axis", Takes::count, false}, {"beta", Takes::real, false}}, makeSoftmax},
    {"Transpose", 1, 1, all, true, {{"perm", Takes::tensor, true}, none}, makeTranspose},
};

const OpRow* find(const char* name) {
  for (const OpRow& row : rows) {
    if (name != nullptr && std::strcmp(row.name, name) == 0) return &row;
  }
  return nullptr;
}

bool fits(const Qnn_Param_t& param, Takes takes) {
  if (takes == Takes::tensor) {
    return param.paramType == QNN_PARAMTYPE_TENSOR && common(param.tensorParam).clientBuf.data != nullptr;
  }
  if (param.paramType != QNN_PARAMTYPE_SCALAR) return false;
  switch (takes) {
    case Takes::count: return param.scalarParam.dataType == QNN_DATATYPE_UINT_32;
    case Takes::truth: return param.scalarParam.dataType == QNN_DATATYPE_BOOL_8;
    default: return param.scalarParam.dataType == QNN_DATATYPE_FLOAT_32;
  }
}

const char* nameOf(Takes takes) {
  switch (takes) {
    case Takes::count: return "a UINT_32";
    case Takes::truth: return "a BOOL_8";
    case Takes::real: return "a FLOAT_32";
    default: return "a tensor with data";
  }
}

Qnn_ErrorHandle_t checkParams(const OpRow& row, const Checked& node) {
  const Qnn_OpConfigV1_t& config = node.config;
  if (config.numOfParams != 0 && config.params == nullptr) return node.refuse("has a number of parameters, but no array of them");
  for (std::uint32_t i = 0; i < config.numOfParams; ++i) {
    const char* const name = config.params[i].name == nullptr ? "" : config.params[i].name;
    const auto known = std::find_if(std::begin(row.params), std::end(row.params), [&](const ParamRow& each) {
      return each.name != nullptr && std::strcmp(each.name, name) == 0;
    });
    if (known == std::end(row.params)) return node.refuse("has no parameter `%s`", name);
    if (!fits(config.params[i], known->takes)) return node.refuse("takes %s as `%s`", nameOf(known->takes), name);
  }
  for (const ParamRow& each : row.params) {
    if (each.mandatory && node.find(each.name) == nullptr) return node.refuse("needs the parameter `%s`", each.name);
  }
  return QNN_SUCCESS;
}

/// The formats of one side, each of a type that the op takes.
Qnn_ErrorHandle_t readSide(const Checked& node, const Qnn_Tensor_t* tensors, std::uint32_t count, unsigned families,
                           std::vector<Format>& formats) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const Qnn_TensorV1_t& given = common(tensors[i]);
    const char* const name = given.name == nullptr ? "" : given.name;
    if (given.type == QNN_TENSOR_TYPE_NULL) {
      formats.emplace_back();
      continue;
    }
    if (given.rank == 0 || given.dimensions == nullptr) return node.refuse("takes no tensor of rank 0 (`%s`)", name);
    if ((familyOf(given.dataType) & families) == 0) {
      return node.refuse("does not take `%s` of the data type 0x%04x", name, static_cast<unsigned>(given.dataType));
    }
    formats.emplace_back(tensors[i]);
  }
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t check(const OpRow& row, Checked& node) {
  const Qnn_OpConfigV1_t& config = node.config;
  if (config.numOfInputs < row.fewest || config.numOfInputs > row.most || config.inputTensors == nullptr) {
    return node.refuse("takes %u to %u inputs, not %u", row.fewest, row.most, config.numOfInputs);
  }
  if (config.numOfOutputs != 1 || config.outputTensors == nullptr) return node.refuse("has one output");
  Qnn_ErrorHandle_t code = readSide(node, config.inputTensors, config.numOfInputs, row.families, node.inputs);
  if (code == QNN_SUCCESS) code = readSide(node, config.outputTensors, 1, row.families, node.outputs);
  if (code != QNN_SUCCESS) return code;
  for (std::uint32_t i = 0; i < config.numOfInputs; ++i) {
    const bool omitted = node.inputs[i].family() == noFamily;
    if (omitted && i < row.fewest) return node.refuse("needs input %u", i);
    if (row.alike && !omitted && node.inputs[i].type() != node.outputs[0].type()) {
      return node.refuse("needs tensors of one data type, not 0x%04x and 0x%04x",
                         static_cast<unsigned>(node.inputs[i].type()), static_cast<unsigned>(node.outputs[0].type()));
    }
  }
  if (node.outputs[0].family() == noFamily) return node.refuse("needs its output");
  return checkParams(row, node);
}

}  // namespace

Qnn_ErrorHandle_t Checked::refuse(const char* format, ...) const {
  char text[256];
  std::va_list list;
  va_start(list, format);
  std::vsnprintf(text, sizeof text, format, list);
  va_end(list);
  logger.error("node `%s`: built-in op %s %s", config.name == nullptr ? "" : config.name, config.typeName, text);
  return QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE;
}

const Qnn_Param_t* Checked::find(const char* name) const {
  for (std::uint32_t i = 0; i < config.numOfParams; ++i) {
    if (config.params[i].name != nullptr && std::strcmp(config.params[i].name, name) == 0) return &config.params[i];
  }
  return nullptr;
}

std::uint32_t Checked::number(const char* name, std::uint32_t otherwise) const {
  const Qnn_Param_t* const found = find(name);
  if (found == nullptr) return otherwise;
  const Qnn_Scalar_t& scalar = found->scalarParam;
  return scalar.dataType == QNN_DATATYPE_BOOL_8 ? scalar.bool8Value : scalar.uint32Value;
}

double Checked::real(const char* name, double otherwise) const {
  const Qnn_Param_t* const found = find(name);
  return found == nullptr ? otherwise : static_cast<double>(found->scalarParam.floatValue);
}

const std::vector<const char*>& builtInNames() {
  static const auto* const names = [] {
    auto* const made = new std::vector<const char*>;
    for (const OpRow& row : rows) made->push_back(row.name);
    return made;
  }();
  return *names;
}

Qnn_ErrorHandle_t makeBuiltIn(const Qnn_OpConfigV1_t& config, const Logger& logger, std::unique_ptr<BuiltIn>& made) {
  const OpRow* const row = find(config.typeName);
  if (row == nullptr) {
    logger.error("node `%s`: the emulator has no built-in op `%s`", config.name == nullptr ? "" : config.name,
                 config.typeName == nullptr ? "" : config.typeName);
    return QNN_COMMON_ERROR_NOT_SUPPORTED;
  }
  Checked node{config, {}, {}, logger};
  const Qnn_ErrorHandle_t code = check(*row, node);
  return code == QNN_SUCCESS ? row->make(node, made) : code;
}

bool isSizedPerCall(const Qnn_OpConfigV1_t& config) {
  return config.typeName != nullptr && std::strcmp(config.typeName, "Reshape") != 0;
}

std::vector<std::uint32_t> shapeOfBuiltIn(const Qnn_OpConfigV1_t& config) {
  const std::string op = config.typeName;
  const Logger silent(std::make_shared<Log>(nullptr, static_cast<QnnLog_Level_t>(0)));
  Checked node{config, {}, {}, silent};
  for (std::uint32_t i = 0; i < config.numOfInputs; ++i) node.inputs.emplace_back(config.inputTensors[i]);
  std::vector<std::uint32_t> shape = node.inputs[0].dims();
  if (op == "MatMul") return productOf(node, node.number("transpose_in0", 0) != 0, node.number("transpose_in1", 0) != 0);
  if (op == "ElementWiseAdd" || op == "ElementWiseMultiply") {
    std::vector<std::uint32_t> both;
    return broadcast(shape, node.inputs[1].dims(), both) ? both : std::vector<std::uint32_t>();
  }
  if (op == "Concat") {
    const std::uint32_t axis = node.number("axis", 0);
    for (std::size_t i = 1; i < node.inputs.size() && axis < shape.size(); ++i) shape[axis] += node.inputs[i].dims().at(axis);
  }
  if (op == "Transpose") {
    const auto* const perm = static_cast<const std::uint32_t*>(common(node.find("perm")->tensorParam).clientBuf.data);
    for (std::size_t i = 0; i < shape.size(); ++i) shape[i] = node.inputs[0].dims().at(perm[i]);
  }
  return shape;
}

Qnn_ErrorHandle_t validateBuiltIn(const Qnn_OpConfigV1_t& config, const Logger& logger) {
  std::unique_ptr<BuiltIn> unused;
  return makeBuiltIn(config, logger, unused);
}

}  // namespace emulator
