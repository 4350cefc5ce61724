// Compares tensors and parameters of the DSP with the config, and copies parameters.

#include <cstdint>

#include "DSP/QnnDspOpPackage.h"

namespace udo {

struct Factory;

// Logs an error, and returns the code for the DSP.
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
Udo_ErrorType_t refuse(Udo_ErrorType_t code, const char* format, ...);

inline Udo_DataType_t udoTypeOf(Qnn_DataType_t type) {
  switch (static_cast<std::uint32_t>(type)) {
    case QNN_DATATYPE_FLOAT_32: return UDO_DATATYPE_FLOAT_32;
    case QNN_DATATYPE_FLOAT_16: return UDO_DATATYPE_FLOAT_16;
    case QNN_DATATYPE_INT_8: return UDO_DATATYPE_INT_8;
    case QNN_DATATYPE_INT_16: return UDO_DATATYPE_INT_16;
    case QNN_DATATYPE_INT_32: return UDO_DATATYPE_INT_32;
    case QNN_DATATYPE_UINT_8:
    case QNN_DATATYPE_BOOL_8: return UDO_DATATYPE_UINT_8;
    case QNN_DATATYPE_UINT_16: return UDO_DATATYPE_UINT_16;
    case QNN_DATATYPE_UINT_32: return UDO_DATATYPE_UINT_32;
    case QNN_DATATYPE_SFIXED_POINT_16:
    case QNN_DATATYPE_UFIXED_POINT_16: return UDO_DATATYPE_FIXED_16;
    case QNN_DATATYPE_SFIXED_POINT_32:
    case QNN_DATATYPE_UFIXED_POINT_32: return UDO_DATATYPE_FIXED_32;
    default: return UDO_DATATYPE_FIXED_8;
  }
}

// Whether a tensor that the DSP reports as this type is stored as one of the config's types.
bool isOneOf(Udo_DataType_t type, List<Qnn_DataType_t> types);

// Whether a tensor has the only value that is supported.
bool isDefault(const OnlyValue& only, const Udo_TensorParam_t& tensor, List<Qnn_DataType_t> types);

std::uint32_t bytesOf(const Udo_TensorParam_t& tensor, const std::uint32_t* dims);

// Compares the parameters of a client with the config.
Udo_ErrorType_t checkParams(List<ParamSpec> specs, std::uint32_t count, const Udo_Param_t* params);

// Copies the parameters into one block of the DSP's memory; nullptr if no memory is left.
Factory* copyParams(const Udo_HexNNv2GlobalInfra_t& dsp, std::uint32_t count, const Udo_Param_t* params);

}  // namespace udo
