// What an implementation library for DSP V65/V66 (Hexagon NN) exports beyond UdoImpl.h, and what it is given.
#ifndef UDOGEN_QNN_SNPE_UDO_IMPL_DSP_H
#define UDOGEN_QNN_SNPE_UDO_IMPL_DSP_H

#include <stddef.h>

#include "SnpeUdo/UdoImpl.h"

#ifdef __cplusplus
extern "C" {
#endif

// Not the function of UdoReg.h, which has the same name: here there is no registration library.
SnpeUdo_ErrorType_t SnpeUdo_validateOperation(SnpeUdo_String_t operationType, uint32_t numOfStaticParams,
                                              const SnpeUdo_Param_t *staticParams);
typedef SnpeUdo_ErrorType_t (*SnpeUdo_ValidateOperationFunction_t)(
    SnpeUdo_String_t operationType, uint32_t numOfStaticParams, const SnpeUdo_Param_t *staticParams);
typedef SnpeUdo_ValidateOperationFunction_t Udo_ValidateOperationFunction_t;

// D32: the depth in blocks of 32, with padding around.
typedef enum {
  SNPE_UDO_DSP_TENSOR_LAYOUT_PLAIN = 0x00,
  UDO_DSP_TENSOR_LAYOUT_PLAIN = 0x00,
  SNPE_UDO_DSP_TENSOR_LAYOUT_D32 = 0x01,
  UDO_DSP_TENSOR_LAYOUT_D32 = 0x01
} SnpeUdo_HexNNTensorLayout_t;
typedef SnpeUdo_HexNNTensorLayout_t Udo_HexNNTensorLayout_t;

// The op returns arrays of its own, with as many elements as the counts; layouts that are NULL mean plain everywhere.
SnpeUdo_ErrorType_t SnpeUdo_queryOperation(
    SnpeUdo_String_t operationType, uint32_t numOfStaticParams, const SnpeUdo_Param_t *staticParams,
    uint32_t *numOfInputs, SnpeUdo_QuantizationType_t **inputsQuantTypes, SnpeUdo_HexNNTensorLayout_t **inputsLayouts,
    uint32_t *numOfOutputs, SnpeUdo_QuantizationType_t **outputsQuantTypes,
    SnpeUdo_HexNNTensorLayout_t **outputsLayouts);
typedef SnpeUdo_ErrorType_t (*SnpeUdo_QueryOperationFunction_t)(
    SnpeUdo_String_t operationType, uint32_t numOfStaticParams, const SnpeUdo_Param_t *staticParams,
    uint32_t *numOfInputs, SnpeUdo_QuantizationType_t **inputsQuantTypes, SnpeUdo_HexNNTensorLayout_t **inputsLayouts,
    uint32_t *numOfOutputs, SnpeUdo_QuantizationType_t **outputsQuantTypes,
    SnpeUdo_HexNNTensorLayout_t **outputsLayouts);
typedef SnpeUdo_QueryOperationFunction_t Udo_QueryOperationFunction_t;

// perOpInfrastructure is what createOperation was given.
typedef void (*workerThread_t)(void *perOpInfrastructure, void *userData);
typedef int (*udoSetOutputTensorSize_t)(void *perOpInfrastructure, uint32_t outIdx, uint32_t size);
typedef int (*udoGetInputD32Paddings_t)(void *perOpInfrastructure, uint32_t inIdx, uint32_t *heightPadBefore,
                                        uint32_t *heightPadAfter, uint32_t *widthPadBefore, uint32_t *widthPadAfter,
                                        uint32_t *depthPadBefore, uint32_t *depthPadAfter);
typedef int (*udoSetOutputD32ShapeSizePaddings_t)(
    void *perOpInfrastructure, uint32_t outIdx, uint32_t batch, uint32_t height, uint32_t heightPadBefore,
    uint32_t heightPadAfter, uint32_t width, uint32_t widthPadBefore, uint32_t widthPadAfter, uint32_t depth,
    uint32_t depthPadBefore, uint32_t depthPadAfter, SnpeUdo_DataType_t dataType);
typedef void *(*udoMemalign_t)(size_t n, size_t size);
typedef void *(*udoMalloc_t)(size_t size);
typedef void *(*udoCalloc_t)(size_t n, size_t size);
typedef void (*udoFree_t)(void *ptr);
typedef uint32_t (*udoGetVtcmSize_t)(void *perOpInfrastructure);
typedef void *(*udoGetVtcmPtr_t)(void *perOpInfrastructure);
typedef uint32_t (*udoVtcmIsReal_t)(void *perOpInfrastructure);
typedef void (*udoRunWorkerThreads_t)(void *perOpInfrastructure, uint32_t nThreads, workerThread_t w, void *userData);

typedef struct hexNNv2GlobalInfra {
  udoSetOutputTensorSize_t udoSetOutputTensorSize;
  udoGetInputD32Paddings_t udoGetInputD32Paddings;
  udoSetOutputD32ShapeSizePaddings_t udoSetOutputD32ShapeSizePaddings;
  udoMemalign_t udoMemalign;
  udoMalloc_t udoMalloc;
  udoCalloc_t udoCalloc;
  udoFree_t udoFree;
  udoGetVtcmSize_t udoGetVtcmSize;
  udoGetVtcmPtr_t udoGetVtcmPtr;
  udoVtcmIsReal_t udoVtcmIsReal;
  udoRunWorkerThreads_t udoRunWorkerThreads;
} SnpeUdo_HexNNv2GlobalInfra_t;
typedef SnpeUdo_HexNNv2GlobalInfra_t Udo_HexNNv2GlobalInfra_t;

// V3 is reserved.
typedef enum hexnnInfraType { UDO_INFRA_HEXNN_V2 = 0, UDO_INFRA_HEXNN_V3 = 1 } SnpeUdo_HexNNInfraType_t;
typedef SnpeUdo_HexNNInfraType_t Udo_HexNNInfraType_t;

typedef struct {
  Udo_CreateOpFactoryFunction_t create_op_factory;
  Udo_CreateOperationFunction_t create_operation;
  Udo_ExecuteOpFunction_t execute_op;
  Udo_ReleaseOpFunction_t release_op;
  Udo_ReleaseOpFactoryFunction_t release_op_factory;
  Udo_ValidateOperationFunction_t validate_op;
  Udo_QueryOperationFunction_t query_op;
} udo_func_package_t;

// What initImplLibrary is given; dspInfraVersion is of the API, to compare with API_VERSION_MAJOR.
typedef struct dspGlobalInfrastructure {
  SnpeUdo_Version_t dspInfraVersion;
  SnpeUdo_HexNNInfraType_t infraType;
  SnpeUdo_HexNNv2GlobalInfra_t hexNNv2Infra;
} SnpeUdo_DspGlobalInfrastructure_t;
typedef SnpeUdo_DspGlobalInfrastructure_t Udo_DspGlobalInfrastructure_t;

// What createOpFactory is given.
typedef struct hexnnv2OpFactoryInfra {
  unsigned long graphId;
} SnpeUdo_HexNNv2OpFactoryInfra_t;
typedef SnpeUdo_HexNNv2OpFactoryInfra_t Udo_HexNNv2OpFactoryInfra_t;

// What createOperation is given: the op keeps it and passes it on to the functions above.
typedef void *SnpeUdo_HexNNv2OpInfra_t;
typedef SnpeUdo_HexNNv2OpInfra_t Udo_HexNNv2OpInfra_t;

#ifdef __cplusplus
}
static_assert(sizeof(SnpeUdo_HexNNv2GlobalInfra_t) == 11 * sizeof(void *), "SnpeUdo_HexNNv2GlobalInfra_t");
static_assert(sizeof(udo_func_package_t) == 7 * sizeof(void *), "udo_func_package_t");
static_assert(sizeof(SnpeUdo_DspGlobalInfrastructure_t) == 16 + 11 * sizeof(void *),
              "SnpeUdo_DspGlobalInfrastructure_t");
#endif

#endif
