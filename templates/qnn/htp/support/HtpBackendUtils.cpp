#include <cstring>

namespace udo {

QHPI_Element_Type elementOf(Qnn_DataType_t type) {
  switch (static_cast<std::uint32_t>(type)) {
    case QNN_DATATYPE_FLOAT_32: return QHPI_Float32;
    case QNN_DATATYPE_FLOAT_16: return QHPI_Float16;
    case QNN_DATATYPE_INT_32:
    case QNN_DATATYPE_UINT_32: return QHPI_Int32;
    case QNN_DATATYPE_SFIXED_POINT_32: return QHPI_QInt32;
    case QNN_DATATYPE_INT_64: return QHPI_Int64;
    default: return (type & 0xff) == 0x16 ? QHPI_QUInt16 : QHPI_QUInt8;
  }
}

std::int32_t zeroOffsetOf(Qnn_DataType_t type) {
  const std::uint32_t family = static_cast<std::uint32_t>(type) & 0xff00;
  if (family != 0x0000 && family != 0x0300) return 0;
  return (type & 0xff) == 0x08 ? 128 : (type & 0xff) == 0x16 ? 32768 : 0;
}

bool Binding::hasInput(std::size_t index) const {
  if (index >= inputCount_) return false;
  return index >= spec_.inputs.count || spec_.inputs.items[index].mandatory || !isAbsent(input_[index]);
}

bool Binding::has(std::size_t param) const {
  const std::size_t index = spec_.inputs.count + param;
  return index < inputCount_ && !(hasOrder(spec_) && isAbsent(input_[index]));
}

double Binding::number(std::size_t param) const {
  const QHPI_Tensor* tensor = input_[spec_.inputs.count + param];
  const void* data = qhpi_tensor_raw_data(tensor);
  const std::uint32_t type = spec_.params.items[param].types.items[0];
  const QHPI_Element_Type element = qhpi_tensor_type(tensor);
  // A BOOL_8 arrives as a Float32 of which HTP sets only the first byte.
  if (type == QNN_DATATYPE_BOOL_8 && element != QHPI_Int32) {
    return *static_cast<const std::uint8_t*>(data) != 0 ? 1.0 : 0.0;
  }
  if (element == QHPI_Float32) return static_cast<double>(*static_cast<const float*>(data));
  if (element == QHPI_Float16) return static_cast<double>(float(*static_cast<const Half*>(data)));
  const std::int32_t offset = qhpi_tensor_quant_parameters(tensor).zero_offset;
  if (element == QHPI_QUInt8) return static_cast<double>(*static_cast<const std::uint8_t*>(data) - offset);
  if (element == QHPI_QUInt16) return static_cast<double>(*static_cast<const std::uint16_t*>(data) - offset);
  std::uint32_t bits = 0;
  std::memcpy(&bits, data, sizeof bits);
  if ((type & 0xff00) == 0x0000) return static_cast<double>(static_cast<std::int32_t>(bits));
  return static_cast<double>(bits);
}

}  // namespace udo
