// Data types, tensors, parameters and op configs: what travels through every QNN call.
#ifndef UDOGEN_QNN_TYPES_H
#define UDOGEN_QNN_TYPES_H

#include "QnnCommon.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct { uint32_t major, minor, patch; } Qnn_Version_t;
typedef struct { Qnn_Version_t coreApiVersion, backendApiVersion; } Qnn_ApiVersion_t;

// The hex digits spell the width, the digit before them the family.
typedef enum {
  QNN_DATATYPE_INT_8 = 0x0008,
  QNN_DATATYPE_INT_16 = 0x0016,
  QNN_DATATYPE_INT_32 = 0x0032,
  QNN_DATATYPE_INT_64 = 0x0064,
  QNN_DATATYPE_UINT_8 = 0x0108,
  QNN_DATATYPE_UINT_16 = 0x0116,
  QNN_DATATYPE_UINT_32 = 0x0132,
  QNN_DATATYPE_UINT_64 = 0x0164,
  QNN_DATATYPE_FLOAT_16 = 0x0216,
  QNN_DATATYPE_BFLOAT_16 = 0x0226,
  QNN_DATATYPE_FLOAT_32 = 0x0232,
  QNN_DATATYPE_FLOAT_64 = 0x0264,
  QNN_DATATYPE_SFIXED_POINT_4 = 0x0304,
  QNN_DATATYPE_SFIXED_POINT_8 = 0x0308,
  QNN_DATATYPE_SFIXED_POINT_16 = 0x0316,
  QNN_DATATYPE_SFIXED_POINT_32 = 0x0332,
  QNN_DATATYPE_UFIXED_POINT_4 = 0x0404,
  QNN_DATATYPE_UFIXED_POINT_8 = 0x0408,
  QNN_DATATYPE_UFIXED_POINT_16 = 0x0416,
  QNN_DATATYPE_UFIXED_POINT_32 = 0x0432,
  QNN_DATATYPE_BOOL_8 = 0x0508,
  QNN_DATATYPE_STRING = 0x0608,
  QNN_DATATYPE_UNDEFINED = 0x7FFFFFFF
} Qnn_DataType_t;

typedef enum {
  QNN_DEFINITION_IMPL_GENERATED = 0,
  QNN_DEFINITION_DEFINED = 1,
  QNN_DEFINITION_UNDEFINED = 0x7FFFFFFF
} Qnn_Definition_t;

// ---- quantization: real = (stored + offset) * scale ----------------------------------------------------

typedef enum {
  QNN_QUANTIZATION_ENCODING_SCALE_OFFSET = 0,
  QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET = 1,
  QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET = 2,
  QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET = 3,
  QNN_QUANTIZATION_ENCODING_BLOCK = 4,
  QNN_QUANTIZATION_ENCODING_BLOCKWISE_EXPANSION = 5,
  QNN_QUANTIZATION_ENCODING_VECTOR = 6,
  QNN_QUANTIZATION_ENCODING_FLOAT_BLOCK = 7,
  QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET_MAPPED = 8,
  QNN_QUANTIZATION_ENCODING_BW_BLOCK_MAPPED = 9,
  QNN_QUANTIZATION_ENCODING_BW_BLOCKWISE_EXPANSION_MAPPED = 10,
  QNN_QUANTIZATION_ENCODING_BW_FLOAT_BLOCK = 11,
  QNN_QUANTIZATION_ENCODING_UNDEFINED = 0x7FFFFFFF
} Qnn_QuantizationEncoding_t;

typedef enum {
  QNN_QUANTIZATION_ENCODING_MAPPING_STANDARD_SYMMETRIC = 0,
  QNN_QUANTIZATION_ENCODING_MAPPING_ASYMMETRIC_PLUS_ONE = 1,
  QNN_QUANTIZATION_ENCODING_MAPPING_LINEAR_SYMMETRIC_EXCLUDE_ZERO = 2,
  QNN_QUANTIZATION_ENCODING_MAPPING_UNDEFINED = 0x7FFFFFFF
} Qnn_QuantizationEncodingMapping_t;

typedef enum {
  QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_8 = 0,
  QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_16 = 1,
  QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_UNDEFINED = 0x7FFFFFFF
} Qnn_BlockwiseExpansionBlockScaleStorageType_t;

typedef struct { float scale; int32_t offset; } Qnn_ScaleOffset_t;
#define QNN_SCALE_OFFSET_INIT {0.0f, 0}
typedef struct { float scale; float offset; } Qnn_FloatScaleOffset_t;
typedef struct { uint32_t bitwidth; float scale; int32_t offset; } Qnn_BwScaleOffset_t;

typedef struct {
  int32_t axis;
  uint32_t numScaleOffsets;
  Qnn_ScaleOffset_t *scaleOffset;
} Qnn_AxisScaleOffset_t;

typedef struct {
  uint32_t bitwidth;
  int32_t axis;
  uint32_t numElements;
  float *scales;
  int32_t *offsets;
} Qnn_BwAxisScaleOffset_t;

typedef struct {
  uint32_t bitwidth;
  int32_t axis;
  Qnn_QuantizationEncodingMapping_t mapping;
  uint32_t numElements;
  float *scales;
  int32_t *offsets;
} Qnn_BwAxisScaleOffsetMapped_t;

typedef struct { uint32_t *blockSize; Qnn_ScaleOffset_t *scaleOffset; } Qnn_BlockEncoding_t;

typedef struct {
  uint32_t bitwidth;
  Qnn_QuantizationEncodingMapping_t mapping;
  uint32_t *blockSize;
  Qnn_ScaleOffset_t *scaleOffset;
} Qnn_BwBlockMapped_t;

typedef struct {
  int32_t axis;
  Qnn_ScaleOffset_t *scaleOffsets;
  uint32_t numBlocksPerAxis;
  uint32_t blockScaleBitwidth;
  Qnn_BlockwiseExpansionBlockScaleStorageType_t blockScaleStorageType;
  union {
    uint8_t *blocksScale8;
    uint16_t *blocksScale16;
  };
} Qnn_BlockwiseExpansion_t;

typedef struct {
  uint32_t bitwidth;
  Qnn_QuantizationEncodingMapping_t mapping;
  int32_t axis;
  Qnn_ScaleOffset_t *scaleOffsets;
  uint32_t numBlocksPerAxis;
  uint32_t blockScaleBitwidth;
  Qnn_BlockwiseExpansionBlockScaleStorageType_t blockScaleStorageType;
  union {
    uint8_t *blocksScale8;
    uint16_t *blocksScale16;
  };
} Qnn_BwBlockwiseExpansionMapped_t;

typedef struct {
  Qnn_BwAxisScaleOffset_t bwAxisScaleOffset;
  uint32_t rowsPerBlock;
  uint32_t columnsPerBlock;
  uint8_t vectorDimension;
  uint8_t vectorStride;
  uint8_t indexBitwidth;
} Qnn_VectorEncoding_t;

typedef struct { uint32_t *blockSize; Qnn_FloatScaleOffset_t *floatScaleOffset; } Qnn_FloatBlockEncoding_t;

typedef struct {
  uint32_t bitwidth;
  uint32_t *blockSize;
  Qnn_FloatScaleOffset_t *floatScaleOffset;
} Qnn_BwFloatBlockEncoding_t;

typedef struct {
  Qnn_Definition_t encodingDefinition;
  Qnn_QuantizationEncoding_t quantizationEncoding;
  union {
    Qnn_ScaleOffset_t scaleOffsetEncoding;
    Qnn_AxisScaleOffset_t axisScaleOffsetEncoding;
    Qnn_BwScaleOffset_t bwScaleOffsetEncoding;
    Qnn_BwAxisScaleOffset_t bwAxisScaleOffsetEncoding;
    Qnn_BlockEncoding_t blockEncoding;
    Qnn_BlockwiseExpansion_t *blockwiseExpansion;
    Qnn_VectorEncoding_t *vectorEncoding;
    Qnn_FloatBlockEncoding_t floatBlockEncoding;
    Qnn_BwAxisScaleOffsetMapped_t *bwAxisScaleOffsetMappedEncoding;
    Qnn_BwBlockMapped_t *bwBlockMappedEncoding;
    Qnn_BwBlockwiseExpansionMapped_t *bwBlockwiseExpansionMappedEncoding;
    Qnn_BwFloatBlockEncoding_t bwFloatBlockEncoding;
  };
} Qnn_QuantizeParams_t;

#define QNN_QUANTIZE_PARAMS_INIT {QNN_DEFINITION_UNDEFINED, QNN_QUANTIZATION_ENCODING_UNDEFINED, {QNN_SCALE_OFFSET_INIT}}

// ---- tensors --------------------------------------------------------------------------------------------

typedef enum {
  QNN_TENSOR_TYPE_APP_WRITE = 0,
  QNN_TENSOR_TYPE_APP_READ = 1,
  QNN_TENSOR_TYPE_APP_READWRITE = 2,
  QNN_TENSOR_TYPE_NATIVE = 3,
  QNN_TENSOR_TYPE_STATIC = 4,
  QNN_TENSOR_TYPE_NULL = 5,
  QNN_TENSOR_TYPE_UPDATEABLE_STATIC = 6,
  QNN_TENSOR_TYPE_UPDATEABLE_NATIVE = 7,
  QNN_TENSOR_TYPE_UPDATEABLE_APP_WRITE = 8,
  QNN_TENSOR_TYPE_UPDATEABLE_APP_READ = 9,
  QNN_TENSOR_TYPE_UPDATEABLE_APP_READWRITE = 10,
  QNN_TENSOR_TYPE_OPTIONAL_APP_WRITE = 11,
  QNN_TENSOR_TYPE_OPTIONAL_APP_READ = 12,
  QNN_TENSOR_TYPE_OPTIONAL_APP_READWRITE = 13,
  QNN_TENSOR_TYPE_UNDEFINED = 0x7FFFFFFF
} Qnn_TensorType_t;

typedef enum {
  QNN_TENSORMEMTYPE_RAW = 0,
  QNN_TENSORMEMTYPE_MEMHANDLE = 1,
  QNN_TENSORMEMTYPE_RETRIEVE_RAW = 2,
  QNN_TENSORMEMTYPE_UNDEFINED = 0x7FFFFFFF
} Qnn_TensorMemType_t;

#define QNN_TENSOR_DATA_FORMAT_DENSE 0
#define QNN_TENSOR_DATA_FORMAT_FLAT_BUFFER 0
typedef uint32_t Qnn_TensorDataFormat_t;

typedef struct { void *data; uint32_t dataSize; } Qnn_ClientBuffer_t;
#define QNN_CLIENT_BUFFER_INIT {NULL, 0}
typedef struct { void *data; uint64_t len; } Qnn_OpaqueObject_t;

typedef Qnn_ErrorHandle_t (*Qnn_GetTensorRawDataFn_t)(
    Qnn_ContextHandle_t context, Qnn_GraphHandle_t graph, uint64_t id, Qnn_ClientBuffer_t *clientBuf);
typedef Qnn_ErrorHandle_t (*Qnn_FreeTensorRawDataFn_t)(
    Qnn_ContextHandle_t context, Qnn_GraphHandle_t graph, uint64_t id);
typedef struct { Qnn_GetTensorRawDataFn_t getTensorData; Qnn_FreeTensorRawDataFn_t freeTensorData; } Qnn_TensorRetrieveRaw_t;

typedef enum {
  QNN_SPARSE_LAYOUT_HYBRID_COO = 0,
  QNN_SPARSE_LAYOUT_UNDEFINED = 0x7FFFFFFF
} Qnn_SparseLayoutType_t;

typedef struct { uint32_t numSpecifiedElements, numSparseDimensions; } Qnn_SparseLayoutHybridCoo_t;

typedef struct {
  Qnn_SparseLayoutType_t type;
  union { Qnn_SparseLayoutHybridCoo_t hybridCoo; };
} Qnn_SparseParams_t;

#define QNN_SPARSE_PARAMS_INIT {QNN_SPARSE_LAYOUT_UNDEFINED, {{0, 0}}}

typedef struct {
  uint32_t id;
  const char *name;
  Qnn_TensorType_t type;
  Qnn_TensorDataFormat_t dataFormat;
  Qnn_DataType_t dataType;
  Qnn_QuantizeParams_t quantizeParams;
  uint32_t rank;
  uint32_t *dimensions;
  Qnn_TensorMemType_t memType;
  union {
    Qnn_ClientBuffer_t clientBuf;
    Qnn_MemHandle_t memHandle;
  };
} Qnn_TensorV1_t;

#define QNN_TENSOR_V1_INIT {0, NULL, QNN_TENSOR_TYPE_UNDEFINED, QNN_TENSOR_DATA_FORMAT_FLAT_BUFFER, QNN_DATATYPE_UNDEFINED, QNN_QUANTIZE_PARAMS_INIT, 0, NULL, QNN_TENSORMEMTYPE_UNDEFINED, {QNN_CLIENT_BUFFER_INIT}}

typedef struct {
  uint32_t id;
  const char *name;
  Qnn_TensorType_t type;
  Qnn_TensorDataFormat_t dataFormat;
  Qnn_DataType_t dataType;
  Qnn_QuantizeParams_t quantizeParams;
  uint32_t rank;
  uint32_t *dimensions;
  Qnn_TensorMemType_t memType;
  union {
    Qnn_ClientBuffer_t clientBuf;
    Qnn_MemHandle_t memHandle;
    Qnn_TensorRetrieveRaw_t *retrieveRaw;
  };
  uint8_t *isDynamicDimensions;
  Qnn_SparseParams_t sparseParams;
  uint8_t isProduced;
} Qnn_TensorV2_t;

#define QNN_TENSOR_V2_INIT {0, NULL, QNN_TENSOR_TYPE_UNDEFINED, QNN_TENSOR_DATA_FORMAT_FLAT_BUFFER, QNN_DATATYPE_UNDEFINED, QNN_QUANTIZE_PARAMS_INIT, 0, NULL, QNN_TENSORMEMTYPE_UNDEFINED, {QNN_CLIENT_BUFFER_INIT}, NULL, QNN_SPARSE_PARAMS_INIT, 0}

typedef enum {
  QNN_TENSOR_VERSION_1 = 1,
  QNN_TENSOR_VERSION_2 = 2,
  QNN_TENSOR_VERSION_UNDEFINED = 0x7FFFFFFF
} Qnn_TensorVersion_t;

typedef struct {
  Qnn_TensorVersion_t version;
  union {
    Qnn_TensorV1_t v1;
    Qnn_TensorV2_t v2;
  };
} Qnn_Tensor_t;

#define QNN_TENSOR_INIT {QNN_TENSOR_VERSION_1, {QNN_TENSOR_V1_INIT}}

// ---- parameters and op configs --------------------------------------------------------------------------

typedef struct {
  Qnn_DataType_t dataType;
  union {
    float floatValue;
    double doubleValue;
    uint64_t uint64Value;
    int64_t int64Value;
    uint32_t uint32Value;
    int32_t int32Value;
    uint16_t uint16Value;
    int16_t int16Value;
    uint8_t uint8Value;
    int8_t int8Value;
    uint8_t bool8Value;
    int16_t bfloat16Value;
    const char *stringValue;
  };
} Qnn_Scalar_t;

#define QNN_SCALAR_INIT {QNN_DATATYPE_UNDEFINED, {0.0f}}

typedef enum {
  QNN_PARAMTYPE_SCALAR = 0,
  QNN_PARAMTYPE_TENSOR = 1,
  QNN_PARAMTYPE_UNDEFINED = 0xFFFFFFFF
} Qnn_ParamType_t;

typedef struct {
  Qnn_ParamType_t paramType;
  const char *name;
  union {
    Qnn_Scalar_t scalarParam;
    Qnn_Tensor_t tensorParam;
  };
} Qnn_Param_t;

#define QNN_PARAM_INIT {QNN_PARAMTYPE_UNDEFINED, NULL, {QNN_SCALAR_INIT}}

typedef struct {
  const char *name;
  const char *packageName;
  const char *typeName;
  uint32_t numOfParams;
  Qnn_Param_t *params;
  uint32_t numOfInputs;
  Qnn_Tensor_t *inputTensors;
  uint32_t numOfOutputs;
  Qnn_Tensor_t *outputTensors;
} Qnn_OpConfigV1_t;

#define QNN_OPCONFIG_V1_INIT {NULL, NULL, NULL, 0, NULL, 0, NULL, 0, NULL}

typedef enum {
  QNN_OPCONFIG_VERSION_1 = 1,
  QNN_OPCONFIG_VERSION_UNDEFINED = 0x7FFFFFFF
} Qnn_OpConfigVersion_t;

typedef struct {
  Qnn_OpConfigVersion_t version;
  union { Qnn_OpConfigV1_t v1; };
} Qnn_OpConfig_t;

#define QNN_OPCONFIG_INIT {QNN_OPCONFIG_VERSION_1, {QNN_OPCONFIG_V1_INIT}}

#ifdef __cplusplus
}
// Hexagon is a 32-bit machine: these sizes hold where pointers have eight bytes.
static_assert(sizeof(void *) != 8 || sizeof(Qnn_QuantizeParams_t) == 40, "Qnn_QuantizeParams_t");
static_assert(sizeof(void *) != 8 || sizeof(Qnn_TensorV1_t) == 112, "Qnn_TensorV1_t");
static_assert(sizeof(void *) != 8 || sizeof(Qnn_Tensor_t) == 144, "Qnn_Tensor_t");
static_assert(sizeof(void *) != 8 || sizeof(Qnn_Scalar_t) == 16, "Qnn_Scalar_t");
static_assert(sizeof(void *) != 8 || sizeof(Qnn_Param_t) == 160, "Qnn_Param_t");
static_assert(sizeof(void *) != 8 || sizeof(Qnn_OpConfig_t) == 80, "Qnn_OpConfig_t");
#endif

#endif
