/* What an implementation library of UDO's own kind exports: a factory per operation and its parameters, operations
 * of that factory per tensors.  In a QNN package for DSP V65/V66 these are members of QnnDspOpPackage_OperationInfo_t. */
#ifndef UDOGEN_QNN_SNPE_UDO_IMPL_H
#define UDOGEN_QNN_SNPE_UDO_IMPL_H

#include <stdbool.h>

#include "SnpeUdo/UdoShared.h"

#ifdef __cplusplus
extern "C" {
#endif

// The library defines what is behind them.
typedef struct _SnpeUdo_OpFactory_t *SnpeUdo_OpFactory_t;
typedef SnpeUdo_OpFactory_t Udo_OpFactory_t;
typedef struct _SnpeUdo_Operation_t *SnpeUdo_Operation_t;
typedef SnpeUdo_Operation_t Udo_Operation_t;

// What the infrastructure points to is in the header of the core (UdoImplDsp.h).
SnpeUdo_ErrorType_t SnpeUdo_initImplLibrary(void *globalInfrastructure);
typedef SnpeUdo_ErrorType_t (*SnpeUdo_InitImplLibraryFunction_t)(void *globalInfrastructure);

SnpeUdo_ErrorType_t SnpeUdo_getImplVersion(SnpeUdo_LibVersion_t **version);
typedef SnpeUdo_ErrorType_t (*SnpeUdo_getImplVersion_t)(SnpeUdo_LibVersion_t **version);

SnpeUdo_ErrorType_t SnpeUdo_terminateImplLibrary(void);
typedef SnpeUdo_ErrorType_t (*SnpeUdo_TerminateImplLibraryFunction_t)(void);

SnpeUdo_ErrorType_t SnpeUdo_getImpInfo(SnpeUdo_ImpInfo_t **implementationInfo);
typedef SnpeUdo_ErrorType_t (*SnpeUdo_GetImpInfoFunction_t)(SnpeUdo_ImpInfo_t **implementationInfo);
typedef SnpeUdo_GetImpInfoFunction_t Udo_GetImpInfoFunction_t;

SnpeUdo_ErrorType_t SnpeUdo_createOpFactory(
    SnpeUdo_CoreType_t udoCoreType, void *perFactoryInfrastructure, SnpeUdo_String_t operationType,
    uint32_t numOfStaticParams, SnpeUdo_Param_t *staticParams, SnpeUdo_OpFactory_t *opFactory);
typedef SnpeUdo_ErrorType_t (*SnpeUdo_CreateOpFactoryFunction_t)(
    SnpeUdo_CoreType_t udoCoreType, void *perFactoryInfrastructure, SnpeUdo_String_t operationType,
    uint32_t numOfStaticParams, SnpeUdo_Param_t *staticParams, SnpeUdo_OpFactory_t *opFactory);
typedef SnpeUdo_CreateOpFactoryFunction_t Udo_CreateOpFactoryFunction_t;

SnpeUdo_ErrorType_t SnpeUdo_releaseOpFactory(SnpeUdo_OpFactory_t opFactory);
typedef SnpeUdo_ErrorType_t (*SnpeUdo_ReleaseOpFactoryFunction_t)(SnpeUdo_OpFactory_t opFactory);
typedef SnpeUdo_ReleaseOpFactoryFunction_t Udo_ReleaseOpFactoryFunction_t;

SnpeUdo_ErrorType_t SnpeUdo_createOperation(
    SnpeUdo_OpFactory_t opFactory, void *perOpInfrastructure, uint32_t numOfInputs, SnpeUdo_TensorParam_t *inputs,
    uint32_t numOfOutputs, SnpeUdo_TensorParam_t *outputs, SnpeUdo_Operation_t *operation);
typedef SnpeUdo_ErrorType_t (*SnpeUdo_CreateOperationFunction_t)(
    SnpeUdo_OpFactory_t opFactory, void *perOpInfrastructure, uint32_t numOfInputs, SnpeUdo_TensorParam_t *inputs,
    uint32_t numOfOutputs, SnpeUdo_TensorParam_t *outputs, SnpeUdo_Operation_t *operation);
typedef SnpeUdo_CreateOperationFunction_t Udo_CreateOperationFunction_t;

// Called with the ID of the execution when one that does not block has ended.  No release runs them that way.
typedef SnpeUdo_ErrorType_t (*SnpeUdo_ExternalNotify_t)(const uint32_t ID);
typedef SnpeUdo_ExternalNotify_t Udo_ExternalNotify_t;

SnpeUdo_ErrorType_t SnpeUdo_executeOp(SnpeUdo_Operation_t operation, bool blocking, const uint32_t ID,
                                      SnpeUdo_ExternalNotify_t notifyFunc);
typedef SnpeUdo_ErrorType_t (*SnpeUdo_ExecuteOpFunction_t)(SnpeUdo_Operation_t operation, bool blocking,
                                                           const uint32_t ID, SnpeUdo_ExternalNotify_t notifyFunc);
typedef SnpeUdo_ExecuteOpFunction_t Udo_ExecuteOpFunction_t;

SnpeUdo_ErrorType_t SnpeUdo_setOpIO(SnpeUdo_Operation_t operation, SnpeUdo_TensorParam_t *inputs,
                                    SnpeUdo_TensorParam_t *outputs);
typedef SnpeUdo_ErrorType_t (*SnpeUdo_SetOpIOFunction_t)(SnpeUdo_Operation_t operation, SnpeUdo_TensorParam_t *inputs,
                                                         SnpeUdo_TensorParam_t *outputs);
typedef SnpeUdo_SetOpIOFunction_t Udo_SetOpIOFunction_t;

// In microseconds.
SnpeUdo_ErrorType_t SnpeUdo_profileOp(SnpeUdo_Operation_t operation, uint32_t *executionTime);
typedef SnpeUdo_ErrorType_t (*SnpeUdo_ProfileOpFunction_t)(SnpeUdo_Operation_t operation, uint32_t *executionTime);
typedef SnpeUdo_ProfileOpFunction_t Udo_ProfileOpFunction_t;

SnpeUdo_ErrorType_t SnpeUdo_releaseOp(SnpeUdo_Operation_t operation);
typedef SnpeUdo_ErrorType_t (*SnpeUdo_ReleaseOpFunction_t)(SnpeUdo_Operation_t operation);
typedef SnpeUdo_ReleaseOpFunction_t Udo_ReleaseOpFunction_t;

#ifdef __cplusplus
}
#endif

#endif
