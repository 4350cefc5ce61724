// Auto-generated part of every converter op package that udogen generates; regenerating rewrites this file.
//
// What a converter passes to an inference function, and what the function must fill in.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "QnnOpPackage.h"
#include "QnnTypes.h"

#if defined(_WIN32)
#define UDO_CONVERTER_VISIBLE __declspec(dllexport)
#else
#define UDO_CONVERTER_VISIBLE __attribute__((visibility("default")))
#endif
#define UDO_CONVERTER_EXPORT extern "C" UDO_CONVERTER_VISIBLE

// Converters look up the functions; the pointers are documented in addition to them.
#define UDO_CONVERTER_POINTERS(op)                                                                                     \
  extern "C" {                                                                                                         \
  UDO_CONVERTER_VISIBLE Qnn_ErrorHandle_t (*op##OutputInfoInferencePtr)(Qnn_OpConfig_t*) = &op##ShapeInference;        \
  UDO_CONVERTER_VISIBLE Qnn_ErrorHandle_t (*op##DataTypeInferencePtr)(Qnn_OpConfig_t*) = &op##DataTypeInference;       \
  }

namespace udo {

inline constexpr std::uint32_t any = 0xffffffffu;
inline constexpr std::uint32_t mostAxes = 8;

/// How many inputs or outputs an op has.
struct Count {
  std::uint32_t least;
  std::uint32_t most;
};

/// One call by a converter.  After the first error nothing more is done, and `status` returns that error.
class Inference {
 public:
  Inference(Qnn_OpConfig_t* config, const char* name, Count inputs, Count outputs) : name_(name) {
    if (config == nullptr || config->version != QNN_OPCONFIG_VERSION_1) {
      fail(QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT, "the op config is missing, or of an unknown version");
      return;
    }
    config_ = &config->v1;
    check("input", config_->numOfInputs, inputs);
    check("output", config_->numOfOutputs, outputs);
  }

  Qnn_ErrorHandle_t status() const { return status_; }
  bool ok() const { return status_ == QNN_SUCCESS; }

  std::uint32_t inputs() const { return config_ == nullptr ? 0 : config_->numOfInputs; }
  std::uint32_t outputs() const { return config_ == nullptr ? 0 : config_->numOfOutputs; }

  std::uint32_t rank(std::uint32_t input) { return hasInput(input) ? in(input).rank : 0; }

  /// One extent of an input's shape.
  std::uint32_t dim(std::uint32_t input, std::uint32_t axis) {
    if (!hasInput(input)) return 0;
    if (axis >= in(input).rank || in(input).dimensions == nullptr) {
      fail(QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE, "input %u has rank %u, so there is no axis %u", input,
           in(input).rank, axis);
      return 0;
    }
    return in(input).dimensions[axis];
  }

  Qnn_DataType_t type(std::uint32_t input) {
    return hasInput(input) ? in(input).dataType : QNN_DATATYPE_UNDEFINED;
  }

  /// An input as the converter passes it; nullptr if there is none.
  const Qnn_Tensor_t* tensor(std::uint32_t input) const {
    return input < inputs() ? &config_->inputTensors[input] : nullptr;
  }

  /// A parameter by its name; nullptr if the model does not have it.
  const Qnn_Param_t* param(const char* name) const {
    for (std::uint32_t i = 0; config_ != nullptr && i < config_->numOfParams; ++i) {
      const Qnn_Param_t& each = config_->params[i];
      if (each.name != nullptr && std::strcmp(each.name, name) == 0) return &each;
    }
    return nullptr;
  }

  /// The value of a numeric parameter; `otherwise` if the model does not have it.
  double number(const char* name, double otherwise) const {
    const Qnn_Param_t* const found = param(name);
    if (found == nullptr || found->paramType != QNN_PARAMTYPE_SCALAR) return otherwise;
    const Qnn_Scalar_t& value = found->scalarParam;
    switch (value.dataType) {
      case QNN_DATATYPE_FLOAT_32: return value.floatValue;
      case QNN_DATATYPE_INT_64: return static_cast<double>(value.int64Value);
      case QNN_DATATYPE_INT_32: return value.int32Value;
      case QNN_DATATYPE_INT_16: return value.int16Value;
      case QNN_DATATYPE_INT_8: return value.int8Value;
      case QNN_DATATYPE_UINT_64: return static_cast<double>(value.uint64Value);
      case QNN_DATATYPE_UINT_32: return value.uint32Value;
      case QNN_DATATYPE_UINT_16: return value.uint16Value;
      case QNN_DATATYPE_UINT_8: return value.uint8Value;
      case QNN_DATATYPE_BOOL_8: return value.bool8Value;
      default: return otherwise;
    }
  }

  void setShape(std::uint32_t output, std::initializer_list<std::uint32_t> extents) {
    setShape(output, extents.begin(), static_cast<std::uint32_t>(extents.size()));
  }

  /// Writes to the memory that the converter allocated for the shape.
  void setShape(std::uint32_t output, const std::uint32_t* extents, std::uint32_t rank) {
    if (!hasOutput(output)) return;
    Qnn_TensorV1_t& tensor = out(output);
    if (rank != 0 && (tensor.dimensions == nullptr || extents == nullptr || rank > mostAxes ||
                      (tensor.rank != 0 && rank > tensor.rank))) {
      fail(QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE, "output %u has no place for a shape of %u axes", output, rank);
      return;
    }
    for (std::uint32_t axis = 0; axis < rank; ++axis) tensor.dimensions[axis] = extents[axis];
    tensor.rank = rank;
  }

  /// Sets which extents of an output can change, if its tensor has an array for that; the shape must be set first.
  template <typename Flag>
  void setDynamic(std::uint32_t output, const Flag* dynamic) {
    if (!ok() || output >= outputs() || config_->outputTensors[output].version != QNN_TENSOR_VERSION_2) return;
    std::uint8_t* const place = config_->outputTensors[output].v2.isDynamicDimensions;
    if (place == nullptr || dynamic == nullptr) return;
    for (std::uint32_t axis = 0; axis < out(output).rank; ++axis) place[axis] = dynamic[axis] ? 1 : 0;
  }

  void shapeLikeInput(std::uint32_t output, std::uint32_t input) {
    if (!hasInput(input)) return;
    setShape(output, in(input).dimensions, in(input).rank);
    const Qnn_Tensor_t& given = config_->inputTensors[input];
    if (given.version == QNN_TENSOR_VERSION_2) setDynamic(output, given.v2.isDynamicDimensions);
  }

  void setType(std::uint32_t output, Qnn_DataType_t type) {
    if (hasOutput(output)) out(output).dataType = type;
  }

  void typeLikeInput(std::uint32_t output, std::uint32_t input) {
    if (hasInput(input)) setType(output, in(input).dataType);
  }

  /// The error of a function that is not written yet.
  void missing(std::uint32_t output, const char* name) {
    fail(QNN_OP_PACKAGE_ERROR_UNSUPPORTED_FEATURE,
         "nothing is known of output %u (%s): write it in ConverterOpPackage/ConverterOpPackage.cpp", output, name);
  }

#if defined(__GNUC__)
  __attribute__((format(printf, 3, 4)))
#endif
  void fail(Qnn_ErrorHandle_t status, const char* format, ...) {
    if (!ok()) return;
    status_ = status;
    std::va_list list;
    va_start(list, format);
    std::fprintf(stderr, "converter op package: op %s: ", name_);
    std::vfprintf(stderr, format, list);
    std::fputc('\n', stderr);
    va_end(list);
  }

 private:
  // v1 and v2 of a tensor agree in all that is read and written here.
  const Qnn_TensorV1_t& in(std::uint32_t input) const { return config_->inputTensors[input].v1; }
  Qnn_TensorV1_t& out(std::uint32_t output) { return config_->outputTensors[output].v1; }

  bool hasInput(std::uint32_t input) {
    if (ok() && input >= inputs()) fail(QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE, "there is no input %u", input);
    return ok();
  }

  bool hasOutput(std::uint32_t output) {
    if (ok() && output >= outputs()) fail(QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE, "there is no output %u", output);
    return ok();
  }

  void check(const char* role, std::uint32_t given, Count wanted) {
    if (given < wanted.least) {
      fail(QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE, "has %u %ss; at least %u are needed", given, role, wanted.least);
    } else if (given > wanted.most) {
      fail(QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE, "has %u %ss; at most %u can be", given, role, wanted.most);
    }
  }

  const char* name_;
  Qnn_OpConfigV1_t* config_ = nullptr;
  Qnn_ErrorHandle_t status_ = QNN_SUCCESS;
};

}  // namespace udo
