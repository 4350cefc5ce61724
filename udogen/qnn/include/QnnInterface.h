// The table of functions a backend library hands out; its order is its ABI.
// One table serves every 2.x: newer ones only append, and a missing function is NULL or lies beyond the end,
// so nothing after the group of a library's own minor version may be read.
#ifndef UDOGEN_QNN_INTERFACE_H
#define UDOGEN_QNN_INTERFACE_H

#include "QnnBackend.h"
#include "QnnCommon.h"
#include "QnnContext.h"
#include "QnnDevice.h"
#include "QnnError.h"
#include "QnnGlobalConfig.h"
#include "QnnGraph.h"
#include "QnnLog.h"
#include "QnnMem.h"
#include "QnnOpPackage.h"
#include "QnnProfile.h"
#include "QnnProperty.h"
#include "QnnSignal.h"
#include "QnnTensor.h"
#include "QnnTypes.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  QNN_INTERFACE_NO_ERROR = 0,
  QNN_INTERFACE_ERROR_NOT_SUPPORTED = 1000,
  QNN_INTERFACE_ERROR_INVALID_PARAMETER = 1004
} QnnInterface_Error_t;

typedef struct {
  Qnn_ErrorHandle_t (*propertyHasCapability)(QnnProperty_Key_t key);

  Qnn_ErrorHandle_t (*backendCreate)(Qnn_LogHandle_t log, const QnnBackend_Config_t **config, Qnn_BackendHandle_t *made);
  Qnn_ErrorHandle_t (*backendSetConfig)(Qnn_BackendHandle_t backend, const QnnBackend_Config_t **config);
  Qnn_ErrorHandle_t (*backendGetApiVersion)(Qnn_ApiVersion_t *version);
  Qnn_ErrorHandle_t (*backendGetBuildId)(const char **id);
  Qnn_ErrorHandle_t (*backendRegisterOpPackage)(Qnn_BackendHandle_t backend, const char *path, const char *provider, const char *target);
  Qnn_ErrorHandle_t (*backendGetSupportedOperations)(Qnn_BackendHandle_t backend, uint32_t *count, const QnnBackend_OperationName_t **names);
  Qnn_ErrorHandle_t (*backendValidateOpConfig)(Qnn_BackendHandle_t backend, Qnn_OpConfig_t op);
  Qnn_ErrorHandle_t (*backendFree)(Qnn_BackendHandle_t backend);

  Qnn_ErrorHandle_t (*contextCreate)(Qnn_BackendHandle_t backend, Qnn_DeviceHandle_t device, const QnnContext_Config_t **config, Qnn_ContextHandle_t *made);
  Qnn_ErrorHandle_t (*contextSetConfig)(Qnn_ContextHandle_t context, const QnnContext_Config_t **config);
  Qnn_ErrorHandle_t (*contextGetBinarySize)(Qnn_ContextHandle_t context, Qnn_ContextBinarySize_t *size);
  Qnn_ErrorHandle_t (*contextGetBinary)(Qnn_ContextHandle_t context, void *into, Qnn_ContextBinarySize_t size, Qnn_ContextBinarySize_t *written);
  Qnn_ErrorHandle_t (*contextCreateFromBinary)(Qnn_BackendHandle_t backend, Qnn_DeviceHandle_t device, const QnnContext_Config_t **config, const void *binary, Qnn_ContextBinarySize_t size, Qnn_ContextHandle_t *made, Qnn_ProfileHandle_t profile);
  Qnn_ErrorHandle_t (*contextFree)(Qnn_ContextHandle_t context, Qnn_ProfileHandle_t profile);

  Qnn_ErrorHandle_t (*graphCreate)(Qnn_ContextHandle_t context, const char *name, const QnnGraph_Config_t **config, Qnn_GraphHandle_t *made);
  Qnn_ErrorHandle_t (*graphCreateSubgraph)(Qnn_GraphHandle_t graph, const char *name, Qnn_GraphHandle_t *made);
  Qnn_ErrorHandle_t (*graphSetConfig)(Qnn_GraphHandle_t graph, const QnnGraph_Config_t **config);
  Qnn_ErrorHandle_t (*graphAddNode)(Qnn_GraphHandle_t graph, Qnn_OpConfig_t op);
  Qnn_ErrorHandle_t (*graphFinalize)(Qnn_GraphHandle_t graph, Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal);
  Qnn_ErrorHandle_t (*graphRetrieve)(Qnn_ContextHandle_t context, const char *name, Qnn_GraphHandle_t *found);
  Qnn_ErrorHandle_t (*graphExecute)(Qnn_GraphHandle_t graph, const Qnn_Tensor_t *inputs, uint32_t numInputs, Qnn_Tensor_t *outputs, uint32_t numOutputs, Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal);
  Qnn_ErrorHandle_t (*graphExecuteAsync)(Qnn_GraphHandle_t graph, const Qnn_Tensor_t *inputs, uint32_t numInputs, Qnn_Tensor_t *outputs, uint32_t numOutputs, Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal, Qnn_NotifyFn_t notify, void *notifyParam);

  Qnn_ErrorHandle_t (*tensorCreateContextTensor)(Qnn_ContextHandle_t context, Qnn_Tensor_t *tensor);
  Qnn_ErrorHandle_t (*tensorCreateGraphTensor)(Qnn_GraphHandle_t graph, Qnn_Tensor_t *tensor);

  Qnn_ErrorHandle_t (*logCreate)(QnnLog_Callback_t callback, QnnLog_Level_t level, Qnn_LogHandle_t *made);
  Qnn_ErrorHandle_t (*logSetLogLevel)(Qnn_LogHandle_t log, QnnLog_Level_t level);
  Qnn_ErrorHandle_t (*logFree)(Qnn_LogHandle_t log);

  Qnn_ErrorHandle_t (*profileCreate)(Qnn_BackendHandle_t backend, QnnProfile_Level_t level, Qnn_ProfileHandle_t *made);
  Qnn_ErrorHandle_t (*profileSetConfig)(Qnn_ProfileHandle_t profile, const QnnProfile_Config_t **config);
  Qnn_ErrorHandle_t (*profileGetEvents)(Qnn_ProfileHandle_t profile, const QnnProfile_EventId_t **ids, uint32_t *count);
  Qnn_ErrorHandle_t (*profileGetSubEvents)(QnnProfile_EventId_t event, const QnnProfile_EventId_t **ids, uint32_t *count);
  Qnn_ErrorHandle_t (*profileGetEventData)(QnnProfile_EventId_t event, QnnProfile_EventData_t *data);
  Qnn_ErrorHandle_t (*profileGetExtendedEventData)(QnnProfile_EventId_t event, QnnProfile_ExtendedEventData_t *data);
  Qnn_ErrorHandle_t (*profileFree)(Qnn_ProfileHandle_t profile);

  Qnn_ErrorHandle_t (*memRegister)(Qnn_ContextHandle_t context, const Qnn_MemDescriptor_t *what, uint32_t count, Qnn_MemHandle_t *made);
  Qnn_ErrorHandle_t (*memDeRegister)(const Qnn_MemHandle_t *handles, uint32_t count);

  Qnn_ErrorHandle_t (*deviceGetPlatformInfo)(Qnn_LogHandle_t log, const QnnDevice_PlatformInfo_t **info);
  Qnn_ErrorHandle_t (*deviceFreePlatformInfo)(Qnn_LogHandle_t log, const QnnDevice_PlatformInfo_t *info);
  Qnn_ErrorHandle_t (*deviceGetInfrastructure)(const QnnDevice_Infrastructure_t *infrastructure);
  Qnn_ErrorHandle_t (*deviceCreate)(Qnn_LogHandle_t log, const QnnDevice_Config_t **config, Qnn_DeviceHandle_t *made);
  Qnn_ErrorHandle_t (*deviceSetConfig)(Qnn_DeviceHandle_t device, const QnnDevice_Config_t **config);
  Qnn_ErrorHandle_t (*deviceGetInfo)(Qnn_DeviceHandle_t device, const QnnDevice_PlatformInfo_t **info);
  Qnn_ErrorHandle_t (*deviceFree)(Qnn_DeviceHandle_t device);

  Qnn_ErrorHandle_t (*signalCreate)(Qnn_BackendHandle_t backend, const QnnSignal_Config_t **config, Qnn_SignalHandle_t *made);
  Qnn_ErrorHandle_t (*signalSetConfig)(Qnn_SignalHandle_t signal, const QnnSignal_Config_t **config);
  Qnn_ErrorHandle_t (*signalTrigger)(Qnn_SignalHandle_t signal);
  Qnn_ErrorHandle_t (*signalFree)(Qnn_SignalHandle_t signal);

  Qnn_ErrorHandle_t (*errorGetMessage)(Qnn_ErrorHandle_t error, const char **text);
  Qnn_ErrorHandle_t (*errorGetVerboseMessage)(Qnn_ErrorHandle_t error, const char **text);
  Qnn_ErrorHandle_t (*errorFreeVerboseMessage)(const char *text);

  Qnn_ErrorHandle_t (*graphPrepareExecutionEnvironment)(Qnn_GraphHandle_t graph, QnnGraph_ExecuteEnvironment_t **envs, uint32_t count);
  Qnn_ErrorHandle_t (*graphReleaseExecutionEnvironment)(Qnn_GraphHandle_t graph, const QnnGraph_ExecuteEnvironment_t **envs, uint32_t count);
  Qnn_ErrorHandle_t (*graphGetProperty)(Qnn_GraphHandle_t graph, QnnGraph_Property_t **properties);

  Qnn_ErrorHandle_t (*contextValidateBinary)(Qnn_BackendHandle_t backend, Qnn_DeviceHandle_t device, const QnnContext_Config_t **config, const void *binary, Qnn_ContextBinarySize_t size);
  Qnn_ErrorHandle_t (*contextCreateFromBinaryWithSignal)(Qnn_BackendHandle_t backend, Qnn_DeviceHandle_t device, const QnnContext_Config_t **config, const void *binary, Qnn_ContextBinarySize_t size, Qnn_ContextHandle_t *made, Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal);
  Qnn_ErrorHandle_t (*contextCreateFromBinaryListAsync)(Qnn_BackendHandle_t backend, Qnn_DeviceHandle_t device, const QnnContext_Params_t **contexts, const QnnContext_Config_t **config, Qnn_SignalHandle_t signal);
  Qnn_ErrorHandle_t (*tensorUpdateGraphTensors)(Qnn_GraphHandle_t graph, const Qnn_Tensor_t **tensors, uint64_t count);
  Qnn_ErrorHandle_t (*tensorUpdateContextTensors)(Qnn_ContextHandle_t context, const Qnn_Tensor_t **tensors, uint64_t count);
  Qnn_ErrorHandle_t (*contextGetBinarySectionSize)(Qnn_ContextHandle_t context, Qnn_GraphHandle_t graph, QnnContext_SectionType_t section, Qnn_ContextBinarySize_t *size);
  Qnn_ErrorHandle_t (*contextGetBinarySection)(Qnn_ContextHandle_t context, Qnn_GraphHandle_t graph, QnnContext_SectionType_t section, const QnnContext_Buffer_t *into, Qnn_ContextBinarySize_t *written, Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal);
  Qnn_ErrorHandle_t (*contextApplyBinarySection)(Qnn_ContextHandle_t context, Qnn_GraphHandle_t graph, QnnContext_SectionType_t section, const QnnContext_Buffer_t *from, Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal);
  Qnn_ErrorHandle_t (*backendGetProperty)(Qnn_BackendHandle_t backend, QnnBackend_Property_t **properties);
  Qnn_ErrorHandle_t (*contextGetProperty)(Qnn_ContextHandle_t context, QnnContext_Property_t **properties);
  Qnn_ErrorHandle_t (*contextGetIncrementalBinary)(Qnn_ContextHandle_t context, const void **binary, Qnn_ContextBinarySize_t *start, Qnn_ContextBinarySize_t *written);
  Qnn_ErrorHandle_t (*contextReleaseIncrementalBinary)(Qnn_ContextHandle_t context, const void *binary, Qnn_ContextBinarySize_t start);
  Qnn_ErrorHandle_t (*contextFinalize)(Qnn_ContextHandle_t context, Qnn_ProfileHandle_t profile);
  Qnn_ErrorHandle_t (*globalConfigSet)(const QnnGlobalConfig_t **config);
  Qnn_ErrorHandle_t (*contextCreateFromBinaryWithCallback)(Qnn_BackendHandle_t backend, Qnn_DeviceHandle_t device, const QnnContext_Config_t **config, const Qnn_ContextBinaryCallback_t *callback, const void *binary, Qnn_ContextBinarySize_t size, Qnn_ContextHandle_t *made, Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal);
  Qnn_ErrorHandle_t (*contextGetBinarySectionUpdate)(const QnnContext_Buffer_t *binary, const QnnContext_Buffer_t *auxiliary, const Qnn_Tensor_t **tensors, uint64_t count, uint8_t keepUpdatable, Qnn_LogHandle_t log, Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal, QnnContext_Buffer_t *update);
  Qnn_ErrorHandle_t (*contextFreeBinarySectionUpdate)(QnnContext_Buffer_t update, Qnn_LogHandle_t log);
} QnnInterface_ImplementationV2_t;

// What programs for the SDK name the table and its member by: `found[0]->QNN_INTERFACE_VER_NAME.graphExecute(...)`.
#define QNN_INTERFACE_VER_TYPE QnnInterface_ImplementationV2_t
#define QNN_INTERFACE_VER_NAME v2

typedef struct {
  uint32_t backendId;
  const char *providerName;
  Qnn_ApiVersion_t apiVersion;
  union { QnnInterface_ImplementationV2_t v2; };
} QnnInterface_t;

Qnn_ErrorHandle_t QnnInterface_getProviders(const QnnInterface_t ***providers, uint32_t *count);

#ifdef __cplusplus
}
static_assert(sizeof(void *) != 8 || sizeof(QnnInterface_ImplementationV2_t) == 71 * 8, "the interface's table");
static_assert(sizeof(void *) != 8 || sizeof(QnnInterface_t) == 40 + 71 * 8, "QnnInterface_t");
#endif

#endif
