#include "tensor.hpp"

#include <algorithm>
#include <cstring>

namespace emulator {

std::size_t bitsOf(Qnn_DataType_t type) {
  const auto code = static_cast<std::uint32_t>(type);
  if (code >= 0x0608) return 0;
  switch (code & 0xff) {  // the hex digits spell the width
    case 0x04: return 4;
    case 0x08: return 8;
    case 0x16:
    case 0x26: return 16;
    case 0x32: return 32;
    case 0x64: return 64;
    default: return 0;
  }
}

std::size_t Tensor::elements() const {
  std::size_t product = 1;
  for (const std::uint32_t each : dims_) product *= each;
  return product;
}

std::size_t Tensor::bytes() const { return (elements() * bitsOf(dataType()) + 7) / 8; }

std::size_t Tensor::largestBytes() const {
  std::size_t product = 1;
  for (const std::uint32_t each : largest_) product *= each;
  return (product * bitsOf(dataType()) + 7) / 8;
}

bool Tensor::resize(const std::vector<std::uint32_t>& dims) {
  if (dims.size() != largest_.size()) return false;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 || dims[i] > largest_[i] || (flags_[i] == 0 && dims[i] != largest_[i])) return false;
  }
  std::copy(dims.begin(), dims.end(), dims_.begin());
  return true;
}

Qnn_ErrorHandle_t Tensor::copy(const Qnn_Tensor_t& from, const Logger& logger, std::unique_ptr<Tensor>& made) {
  if (from.version != QNN_TENSOR_VERSION_1 && from.version != QNN_TENSOR_VERSION_2) {
    logger.error("a tensor of version %u", static_cast<unsigned>(from.version));
    return QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM;
  }
  const Qnn_TensorV1_t& given = common(from);
  const char* const name = given.name == nullptr ? "" : given.name;
  const auto refuse = [&](Qnn_ErrorHandle_t code, const char* why) {
    logger.error("tensor `%s` %s", name, why);
    return code;
  };
  if (*name == '\0') return refuse(QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM, "has no name");
  switch (given.type) {
    case QNN_TENSOR_TYPE_APP_WRITE:
    case QNN_TENSOR_TYPE_APP_READ:
    case QNN_TENSOR_TYPE_APP_READWRITE:
    case QNN_TENSOR_TYPE_NATIVE:
    case QNN_TENSOR_TYPE_STATIC:
    case QNN_TENSOR_TYPE_NULL: break;
    default: return refuse(QNN_TENSOR_ERROR_UNSUPPORTED_TENSOR_PARAM, "is of a type that this backend does not have");
  }
  if (bitsOf(given.dataType) == 0) return refuse(QNN_TENSOR_ERROR_UNSUPPORTED_TENSOR_PARAM, "has no data type");
  if (given.dataFormat != QNN_TENSOR_DATA_FORMAT_FLAT_BUFFER) {
    return refuse(QNN_TENSOR_ERROR_UNSUPPORTED_TENSOR_PARAM, "is in a data format other than a flat buffer");
  }
  if (given.rank != 0 && given.dimensions == nullptr) {
    return refuse(QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM, "has a rank and no dimensions");
  }
  auto tensor = std::make_unique<Tensor>();
  std::size_t total = 1;
  for (std::uint32_t i = 0; i < given.rank; ++i) {
    tensor->flags_.push_back(from.version == QNN_TENSOR_VERSION_2 && from.v2.isDynamicDimensions != nullptr &&
                             from.v2.isDynamicDimensions[i] != 0);
    if (given.dimensions[i] == 0 && given.type != QNN_TENSOR_TYPE_NULL) {
      return refuse(QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM, "has a dimension of zero");
    }
    if (__builtin_mul_overflow(total, static_cast<std::size_t>(given.dimensions[i]), &total) || total > (1ull << 40)) {
      return refuse(QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM, "is too large");
    }
    tensor->dims_.push_back(given.dimensions[i]);
  }
  tensor->name_ = name;
  tensor->largest_ = tensor->dims_;
  Qnn_TensorV1_t& own = tensor->raw_.v1;
  tensor->raw_.version = QNN_TENSOR_VERSION_1;
  own = given;
  if (std::find(tensor->flags_.begin(), tensor->flags_.end(), 1) != tensor->flags_.end()) {
    tensor->raw_.version = QNN_TENSOR_VERSION_2;
    tensor->raw_.v2.isDynamicDimensions = tensor->flags_.data();
  }
  own.name = tensor->name_.c_str();
  own.dimensions = tensor->dims_.data();
  own.memType = QNN_TENSORMEMTYPE_RAW;
  own.clientBuf = {nullptr, 0};
  if (given.type == QNN_TENSOR_TYPE_STATIC) {
    if (given.memType != QNN_TENSORMEMTYPE_RAW || given.clientBuf.data == nullptr) {
      return refuse(QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM, "is static and has no data");
    }
    if (given.clientBuf.dataSize < tensor->bytes()) {
      return refuse(QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM, "is static, and its data is smaller than its shape");
    }
    const auto* const bytes = static_cast<const unsigned char*>(given.clientBuf.data);
    tensor->data_.assign(bytes, bytes + tensor->bytes());
    own.clientBuf = {tensor->data_.data(), static_cast<std::uint32_t>(tensor->data_.size())};
  }
  const Qnn_ErrorHandle_t code = tensor->copyQuantization(given.quantizeParams, logger);
  if (code == QNN_SUCCESS) made = std::move(tensor);
  return code;
}

Qnn_ErrorHandle_t Tensor::copyQuantization(const Qnn_QuantizeParams_t& from, const Logger& logger) {
  Qnn_QuantizeParams_t& own = raw_.v1.quantizeParams;
  if (from.encodingDefinition != QNN_DEFINITION_DEFINED) {
    own = {};
    own.encodingDefinition = QNN_DEFINITION_UNDEFINED;
    own.quantizationEncoding = QNN_QUANTIZATION_ENCODING_UNDEFINED;
    return QNN_SUCCESS;
  }
  switch (from.quantizationEncoding) {
    case QNN_QUANTIZATION_ENCODING_UNDEFINED:
    case QNN_QUANTIZATION_ENCODING_SCALE_OFFSET:
    case QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET: return QNN_SUCCESS;
    case QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET: {
      const Qnn_AxisScaleOffset_t& axis = from.axisScaleOffsetEncoding;
      if (axis.scaleOffset == nullptr) return QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM;
      scaleOffsets_.assign(axis.scaleOffset, axis.scaleOffset + axis.numScaleOffsets);
      own.axisScaleOffsetEncoding.scaleOffset = scaleOffsets_.data();
      return QNN_SUCCESS;
    }
    case QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET: {
      const Qnn_BwAxisScaleOffset_t& axis = from.bwAxisScaleOffsetEncoding;
      if (axis.scales == nullptr) return QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM;
      scales_.assign(axis.scales, axis.scales + axis.numElements);
      own.bwAxisScaleOffsetEncoding.scales = scales_.data();
      if (axis.offsets != nullptr) offsets_.assign(axis.offsets, axis.offsets + axis.numElements);
      own.bwAxisScaleOffsetEncoding.offsets = offsets_.empty() ? nullptr : offsets_.data();
      return QNN_SUCCESS;
    }
    default:
      logger.error("tensor `%s` is quantized in a way that this backend does not have", name_.c_str());
      return QNN_TENSOR_ERROR_UNSUPPORTED_TENSOR_PARAM;
  }
}

}  // namespace emulator
