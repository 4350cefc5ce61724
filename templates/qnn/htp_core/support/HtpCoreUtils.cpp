// make looks for this name.
#define UDO_VENDOR_STYLE 1

namespace udo {

GraphStatus fail(const char* format, ...) {
  std::va_list list;
  va_start(list, format);
  errorList(format, list);
  va_end(list);
  return GraphStatus::ErrorFatal;
}

GraphStatus notWritten(const char* op, const char* file) {
  return fail("%s is not implemented: write the kernel in %s", op, file);
}

float real(const Tensor& tensor, std::size_t index) {
  const void* data = tensor.raw_data_const();
  const Quantization quant = quantization(tensor);
  switch (tensor.get_dtype()) {
    case DType::Float32: return static_cast<const float*>(data)[index];
    case DType::Float16: return static_cast<float>(static_cast<const Float16*>(data)[index]);
    case DType::QUInt8: return quant.toReal(static_cast<const std::uint8_t*>(data)[index]);
    case DType::QUInt16: return quant.toReal(static_cast<const std::uint16_t*>(data)[index]);
    case DType::QInt8: return quant.toReal(static_cast<const std::int8_t*>(data)[index]);
    case DType::QInt16: return quant.toReal(static_cast<const std::int16_t*>(data)[index]);
    default: return quant.toReal(static_cast<const std::int32_t*>(data)[index]);
  }
}

void setReal(Tensor& tensor, std::size_t index, float real) {
  void* data = tensor.raw_data();
  const Quantization quant = quantization(tensor);
  const auto put = [&](auto* elements) {
    using Stored = std::remove_reference_t<decltype(*elements)>;
    using Limits = std::numeric_limits<Stored>;
    elements[index] = static_cast<Stored>(quant.toStored(real, Limits::min(), Limits::max()));
  };
  switch (tensor.get_dtype()) {
    case DType::Float32: static_cast<float*>(data)[index] = real; break;
    case DType::Float16: static_cast<Float16*>(data)[index] = static_cast<Float16>(real); break;
    case DType::QUInt8: put(static_cast<std::uint8_t*>(data)); break;
    case DType::QUInt16: put(static_cast<std::uint16_t*>(data)); break;
    case DType::QInt8: put(static_cast<std::int8_t*>(data)); break;
    case DType::QInt16: put(static_cast<std::int16_t*>(data)); break;
    default: put(static_cast<std::int32_t*>(data)); break;
  }
}

bool isOneOf(const Tensor& tensor, const char* name, std::initializer_list<DType> types) {
  for (const DType type : types) {
    if (type == tensor.get_dtype()) return true;
  }
  error("%s is of a type that the config does not allow (DType %d)", name, static_cast<int>(tensor.get_dtype()));
  return false;
}

Qnn_Param_t scalarParam(const char* name, Qnn_DataType_t type, double value) {
  Qnn_Param_t param = {};
  param.paramType = QNN_PARAMTYPE_SCALAR;
  param.name = name;
  Qnn_Scalar_t& scalar = param.scalarParam;
  scalar.dataType = type;
  switch (type) {
    case QNN_DATATYPE_FLOAT_32: scalar.floatValue = static_cast<float>(value); break;
    case QNN_DATATYPE_INT_8: scalar.int8Value = static_cast<std::int8_t>(value); break;
    case QNN_DATATYPE_INT_16: scalar.int16Value = static_cast<std::int16_t>(value); break;
    case QNN_DATATYPE_INT_32: scalar.int32Value = static_cast<std::int32_t>(value); break;
    case QNN_DATATYPE_UINT_8: scalar.uint8Value = static_cast<std::uint8_t>(value); break;
    case QNN_DATATYPE_UINT_16: scalar.uint16Value = static_cast<std::uint16_t>(value); break;
    case QNN_DATATYPE_BOOL_8: scalar.bool8Value = value != 0.0; break;
    default: scalar.uint32Value = static_cast<std::uint32_t>(value); break;
  }
  return param;
}

Qnn_Param_t tensorParam(const char* name, Qnn_DataType_t type, const void* data, std::size_t bytes,
                        const std::uint32_t* dims, std::size_t rank) {
  Qnn_Param_t param = {};
  param.paramType = QNN_PARAMTYPE_TENSOR;
  param.name = name;
  param.tensorParam.version = QNN_TENSOR_VERSION_1;
  Qnn_TensorV1_t& tensor = param.tensorParam.v1;
  tensor.name = name;
  tensor.type = QNN_TENSOR_TYPE_STATIC;
  tensor.dataType = type;
  tensor.quantizeParams.encodingDefinition = QNN_DEFINITION_UNDEFINED;
  tensor.quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_UNDEFINED;
  tensor.rank = static_cast<std::uint32_t>(rank);
  tensor.dimensions = const_cast<std::uint32_t*>(dims);
  tensor.memType = QNN_TENSORMEMTYPE_RAW;
  tensor.clientBuf.data = const_cast<void*>(data);
  tensor.clientBuf.dataSize = static_cast<std::uint32_t>(bytes);
  return param;
}

}  // namespace udo
