/* The types of the UDO API 1.6 (SNPE's SnpeUdo/, the QNN SDK's DSP/Udo/), declared by udogen's authors from the
 * "UDO API" pages of the SNPE documentation.  Each name exists twice, with and without what it begins with: Snpe. */
#ifndef UDOGEN_QNN_SNPE_UDO_BASE_H
#define UDOGEN_QNN_SNPE_UDO_BASE_H

#include <stdbool.h>
#include <stdint.h>

#define API_VERSION_MAJOR 1
#define API_VERSION_MINOR 6
#define API_VERSION_TEENY 0

// Bytes of the longest text, with its final 0: SNPE cuts what is longer.
#define SNPE_UDO_MAX_STRING_SIZE 1024

#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t SnpeUdo_Bitmask_t;
typedef SnpeUdo_Bitmask_t Udo_Bitmask_t;
typedef char *SnpeUdo_String_t;
typedef SnpeUdo_String_t Udo_String_t;

// Below 100: of the call.  From 100 on: of the operation that the call describes.
typedef enum {
  SNPE_UDO_NO_ERROR = 0,
  UDO_NO_ERROR = 0,
  SNPE_UDO_WRONG_CORE = 1,
  UDO_WRONG_CORE = 1,
  SNPE_UDO_INVALID_ARGUMENT = 2,
  UDO_INVALID_ARGUMENT = 2,
  SNPE_UDO_UNSUPPORTED_FEATURE = 3,
  UDO_UNSUPPORTED_FEATURE = 3,
  SNPE_UDO_MEM_ALLOC_ERROR = 4,
  UDO_MEM_ALLOC_ERROR = 4,
  SNPE_UDO_WRONG_OPERATION = 100,
  UDO_WRONG_OPERATION = 100,
  SNPE_UDO_WRONG_CORE_TYPE = 101,
  UDO_WRONG_CORE_TYPE = 101,
  SNPE_UDO_WRONG_NUM_OF_PARAMS = 102,
  UDO_WRONG_NUM_OF_PARAMS = 102,
  SNPE_UDO_WRONG_NUM_OF_DIMENSIONS = 103,
  UDO_WRONG_NUM_OF_DIMENSIONS = 103,
  SNPE_UDO_WRONG_NUM_OF_INPUTS = 104,
  UDO_WRONG_NUM_OF_INPUTS = 104,
  SNPE_UDO_WRONG_NUM_OF_OUTPUTS = 105,
  UDO_WRONG_NUM_OF_OUTPUTS = 105,
  SNPE_UDO_PROGRAM_CACHE_NOT_FOUND = 106,
  UDO_PROGRAM_CACHE_NOT_FOUND = 106,
  SNPE_UDO_UNKNOWN_ERROR = 0xFFFFFFFF,
  UDO_UNKNOWN_ERROR = 0xFFFFFFFF
} SnpeUdo_ErrorType_t;
typedef SnpeUdo_ErrorType_t Udo_ErrorType_t;

// Bits: calculation types are a mask of them.
typedef enum {
  SNPE_UDO_DATATYPE_FLOAT_16 = 0x01,
  UDO_DATATYPE_FLOAT_16 = 0x01,
  SNPE_UDO_DATATYPE_FLOAT_32 = 0x02,
  UDO_DATATYPE_FLOAT_32 = 0x02,
  SNPE_UDO_DATATYPE_FIXED_4 = 0x04,
  UDO_DATATYPE_FIXED_4 = 0x04,
  SNPE_UDO_DATATYPE_FIXED_8 = 0x08,
  UDO_DATATYPE_FIXED_8 = 0x08,
  SNPE_UDO_DATATYPE_FIXED_16 = 0x10,
  UDO_DATATYPE_FIXED_16 = 0x10,
  SNPE_UDO_DATATYPE_FIXED_32 = 0x20,
  UDO_DATATYPE_FIXED_32 = 0x20,
  SNPE_UDO_DATATYPE_UINT_8 = 0x100,
  UDO_DATATYPE_UINT_8 = 0x100,
  SNPE_UDO_DATATYPE_UINT_16 = 0x200,
  UDO_DATATYPE_UINT_16 = 0x200,
  SNPE_UDO_DATATYPE_UINT_32 = 0x400,
  UDO_DATATYPE_UINT_32 = 0x400,
  SNPE_UDO_DATATYPE_INT_8 = 0x1000,
  UDO_DATATYPE_INT_8 = 0x1000,
  SNPE_UDO_DATATYPE_INT_16 = 0x2000,
  UDO_DATATYPE_INT_16 = 0x2000,
  SNPE_UDO_DATATYPE_INT_32 = 0x4000,
  UDO_DATATYPE_INT_32 = 0x4000,
  SNPE_UDO_DATATYPE_LAST = 0xFFFFFFFF,
  UDO_DATATYPE_LAST = 0xFFFFFFFF
} SnpeUdo_DataType_t;
typedef SnpeUdo_DataType_t Udo_DataType_t;

// NULL marks the place of an omitted optional tensor.
typedef enum {
  SNPE_UDO_LAYOUT_NHWC = 0x01,
  UDO_LAYOUT_NHWC = 0x01,
  SNPE_UDO_LAYOUT_NCHW = 0x02,
  UDO_LAYOUT_NCHW = 0x02,
  SNPE_UDO_LAYOUT_NDHWC = 0x04,
  UDO_LAYOUT_NDHWC = 0x04,
  SNPE_UDO_LAYOUT_GPU_OPTIMAL1 = 0x08,
  UDO_LAYOUT_GPU_OPTIMAL1 = 0x08,
  SNPE_UDO_LAYOUT_GPU_OPTIMAL2 = 0x10,
  UDO_LAYOUT_GPU_OPTIMAL2 = 0x10,
  SNPE_UDO_LAYOUT_DSP_OPTIMAL1 = 0x11,
  UDO_LAYOUT_DSP_OPTIMAL1 = 0x11,
  SNPE_UDO_LAYOUT_DSP_OPTIMAL2 = 0x12,
  UDO_LAYOUT_DSP_OPTIMAL2 = 0x12,
  SNPE_UDO_LAYOUT_NULL = 0x13,
  UDO_LAYOUT_NULL = 0x13,
  SNPE_UDO_LAYOUT_LAST = 0xFFFFFFFF,
  UDO_LAYOUT_LAST = 0xFFFFFFFF
} SnpeUdo_TensorLayout_t;
typedef SnpeUdo_TensorLayout_t Udo_TensorLayout_t;

typedef enum {
  SNPE_UDO_CORETYPE_UNDEFINED = 0x00,
  UDO_CORETYPE_UNDEFINED = 0x00,
  SNPE_UDO_CORETYPE_CPU = 0x01,
  UDO_CORETYPE_CPU = 0x01,
  SNPE_UDO_CORETYPE_GPU = 0x02,
  UDO_CORETYPE_GPU = 0x02,
  SNPE_UDO_CORETYPE_DSP = 0x04,
  UDO_CORETYPE_DSP = 0x04,
  SNPE_UDO_CORETYPE_LAST = 0xFFFFFFFF,
  UDO_CORETYPE_LAST = 0xFFFFFFFF
} SnpeUdo_CoreType_t;
typedef SnpeUdo_CoreType_t Udo_CoreType_t;

typedef enum {
  SNPE_UDO_PARAMTYPE_SCALAR = 0x00,
  UDO_PARAMTYPE_SCALAR = 0x00,
  SNPE_UDO_PARAMTYPE_STRING = 0x01,
  UDO_PARAMTYPE_STRING = 0x01,
  SNPE_UDO_PARAMTYPE_TENSOR = 0x02,
  UDO_PARAMTYPE_TENSOR = 0x02,
  SNPE_UDO_PARAMTYPE_LAST = 0xFFFFFFFF,
  UDO_PARAMTYPE_LAST = 0xFFFFFFFF
} SnpeUdo_ParamType_t;
typedef SnpeUdo_ParamType_t Udo_ParamType_t;

// TF: the smallest and the largest real value of the numbers.
typedef enum {
  SNPE_UDO_QUANTIZATION_NONE = 0x00,
  UDO_QUANTIZATION_NONE = 0x00,
  SNPE_UDO_QUANTIZATION_TF = 0x01,
  UDO_QUANTIZATION_TF = 0x01,
  SNPE_UDO_QUANTIZATION_QMN = 0x02,
  UDO_QUANTIZATION_QMN = 0x02,
  SNPE_UDO_QUANTIZATION_LAST = 0xFFFFFFFF,
  UDO_QUANTIZATION_LAST = 0xFFFFFFFF
} SnpeUdo_QuantizationType_t;
typedef SnpeUdo_QuantizationType_t Udo_QuantizationType_t;

typedef struct {
  uint32_t major;
  uint32_t minor;
  uint32_t teeny;
} SnpeUdo_Version_t;
typedef SnpeUdo_Version_t Udo_Version_t;

typedef struct {
  SnpeUdo_Version_t libVersion;  // the author's
  SnpeUdo_Version_t apiVersion;  // API_VERSION_* of the headers it was built with
} SnpeUdo_LibVersion_t;

typedef struct {
  Udo_Version_t apiVersion;
} Udo_PkgVersion_t;

typedef union {
  float floatValue;
  uint32_t uint32Value;
  int32_t int32Value;
  uint16_t uint16Value;
  int16_t int16Value;
  uint8_t uint8Value;
  int8_t int8Value;
} SnpeUdo_Value_t;
typedef SnpeUdo_Value_t Udo_Value_t;

typedef struct {
  SnpeUdo_DataType_t dataType;
  SnpeUdo_Value_t dataValue;
} SnpeUdo_ScalarParam_t;
typedef SnpeUdo_ScalarParam_t Udo_ScalarParam_t;

typedef struct {
  float minValue;
  float maxValue;
} SnpeUdo_TFQuantize_t;
typedef SnpeUdo_TFQuantize_t Udo_TFQuantize_t;

typedef struct {
  SnpeUdo_QuantizationType_t quantizeType;
  union {
    SnpeUdo_TFQuantize_t TFParams;
  };
} SnpeUdo_QuantizeParams_t;
typedef SnpeUdo_QuantizeParams_t Udo_QuantizeParams_t;

typedef struct {
  SnpeUdo_CoreType_t coreType;
  SnpeUdo_DataType_t dataType;
} SnpeUdo_PerCoreDatatype_t;
typedef SnpeUdo_PerCoreDatatype_t Udo_PerCoreDatatype_t;

// The data has space for maxDimensions; an op may write smaller currDimensions of its outputs.
typedef struct {
  uint32_t *maxDimensions;
  uint32_t *currDimensions;
  SnpeUdo_QuantizeParams_t quantizeParams;
  uint32_t tensorRank;
  SnpeUdo_DataType_t dataType;
  SnpeUdo_TensorLayout_t layout;
  void *tensorData;
} SnpeUdo_TensorParam_t;
typedef SnpeUdo_TensorParam_t Udo_TensorParam_t;

// perCoreDatatype has no count: one row for each core of the operation, in the order of its opPerCoreInfo.
typedef struct {
  SnpeUdo_String_t tensorName;
  SnpeUdo_TensorLayout_t layout;
  SnpeUdo_PerCoreDatatype_t *perCoreDatatype;
  bool repeated;
  bool isStatic;
} SnpeUdo_TensorInfo_t;
typedef SnpeUdo_TensorInfo_t Udo_TensorInfo_t;

typedef struct {
  SnpeUdo_ParamType_t paramType;
  SnpeUdo_String_t paramName;
  union {
    SnpeUdo_ScalarParam_t scalarParam;
    SnpeUdo_TensorParam_t tensorParam;
    SnpeUdo_String_t stringParam;
  };
} SnpeUdo_Param_t;
typedef SnpeUdo_Param_t Udo_Param_t;

typedef struct {
  SnpeUdo_CoreType_t udoCoreType;
  SnpeUdo_Bitmask_t operationCalculationTypes;  // of SnpeUdo_DataType_t
} SnpeUdo_OpCoreInfo_t;
typedef SnpeUdo_OpCoreInfo_t Udo_OpCoreInfo_t;

// The last two members are SNPE's; the QNN SDK's copy of this header ends before them.
typedef struct {
  SnpeUdo_String_t operationType;
  SnpeUdo_Bitmask_t supportedByCores;  // of SnpeUdo_CoreType_t
  uint32_t numOfStaticParams;
  SnpeUdo_Param_t *staticParams;
  uint32_t numOfInputs;
  SnpeUdo_String_t *inputNames;
  uint32_t numOfOutputs;
  SnpeUdo_String_t *outputNames;
  uint32_t numOfCoreInfo;
  SnpeUdo_OpCoreInfo_t *opPerCoreInfo;
  SnpeUdo_TensorInfo_t *inputInfos;
  SnpeUdo_TensorInfo_t *outputInfos;
} SnpeUdo_OperationInfo_t;
typedef SnpeUdo_OperationInfo_t Udo_OperationInfo_t;

typedef struct {
  SnpeUdo_CoreType_t udoCoreType;
  SnpeUdo_String_t libraryName;  // the loader looks for it where it looks for every library
} SnpeUdo_LibraryInfo_t;
typedef SnpeUdo_LibraryInfo_t Udo_LibraryInfo_t;

// What a registration library provides.
typedef struct {
  SnpeUdo_String_t packageName;
  SnpeUdo_Bitmask_t supportedCoreTypes;  // of SnpeUdo_CoreType_t
  uint32_t numOfImplementationLib;
  SnpeUdo_LibraryInfo_t *implementationLib;
  SnpeUdo_String_t operationsString;  // all operation types, with a space between two
  uint32_t numOfOperations;
  SnpeUdo_OperationInfo_t *operationsInfo;
} SnpeUdo_RegInfo_t;
typedef SnpeUdo_RegInfo_t Udo_RegInfo_t;

// What an implementation library provides.
typedef struct {
  SnpeUdo_CoreType_t udoCoreType;
  SnpeUdo_String_t packageName;
  SnpeUdo_String_t operationsString;
  uint32_t numOfOperations;
} SnpeUdo_ImpInfo_t;
typedef SnpeUdo_ImpInfo_t Udo_ImpInfo_t;

// One operation of a network, for validation.
typedef struct {
  SnpeUdo_CoreType_t udoCoreType;
  SnpeUdo_String_t operationType;
  uint32_t numOfStaticParams;
  SnpeUdo_Param_t *staticParams;
  uint32_t numOfInputs;
  SnpeUdo_TensorParam_t *inputs;
  uint32_t numOfOutputs;
  SnpeUdo_TensorParam_t *outputs;
} SnpeUdo_OpDefinition_t;
typedef SnpeUdo_OpDefinition_t Udo_OpDefinition_t;

#ifdef __cplusplus
}
// Hexagon's pointers have four bytes, the others' eight.
static_assert(sizeof(SnpeUdo_ErrorType_t) == 4, "SnpeUdo_ErrorType_t");
static_assert(sizeof(SnpeUdo_QuantizeParams_t) == 12, "SnpeUdo_QuantizeParams_t");
static_assert(sizeof(SnpeUdo_TensorParam_t) == (sizeof(void *) == 8 ? 48 : 36), "SnpeUdo_TensorParam_t");
static_assert(sizeof(SnpeUdo_TensorInfo_t) == (sizeof(void *) == 8 ? 32 : 16), "SnpeUdo_TensorInfo_t");
static_assert(sizeof(SnpeUdo_Param_t) == (sizeof(void *) == 8 ? 64 : 44), "SnpeUdo_Param_t");
static_assert(sizeof(SnpeUdo_OperationInfo_t) == (sizeof(void *) == 8 ? 88 : 48), "SnpeUdo_OperationInfo_t");
static_assert(sizeof(SnpeUdo_RegInfo_t) == (sizeof(void *) == 8 ? 48 : 28), "SnpeUdo_RegInfo_t");
static_assert(sizeof(SnpeUdo_ImpInfo_t) == (sizeof(void *) == 8 ? 32 : 16), "SnpeUdo_ImpInfo_t");
static_assert(sizeof(SnpeUdo_OpDefinition_t) == (sizeof(void *) == 8 ? 64 : 32), "SnpeUdo_OpDefinition_t");
#endif

#endif
