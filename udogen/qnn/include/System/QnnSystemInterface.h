// The table of functions of libQnnSystem.so; its order is its ABI.
#ifndef UDOGEN_QNN_SYSTEM_INTERFACE_H
#define UDOGEN_QNN_SYSTEM_INTERFACE_H

#include "QnnLog.h"
#include "QnnClientTypes.h"
#include "System/QnnSystemContext.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  QNN_SYSTEM_INTERFACE_NO_ERROR = 0,
  QNN_SYSTEM_INTERFACE_ERROR_NOT_SUPPORTED = 1000,
  QNN_SYSTEM_INTERFACE_ERROR_INVALID_PARAMETER = 1004
} QnnSystemInterface_Error_t;

typedef enum {
  QNN_SYSTEM_PROFILE_NO_ERROR = 0,
  QNN_SYSTEM_PROFILE_ERROR_UNSUPPORTED_FEATURE = 1000,
  QNN_SYSTEM_PROFILE_ERROR_INVALID_HANDLE = 30000,
  QNN_SYSTEM_PROFILE_ERROR_INVALID_ARGUMENT = 30001,
  QNN_SYSTEM_PROFILE_ERROR_MEM_ALLOC = 31000
} QnnSystemProfile_Error_t;

typedef struct {
  Qnn_ErrorHandle_t (*systemContextCreate)(QnnSystemContext_Handle_t *made);
  Qnn_ErrorHandle_t (*systemContextGetBinaryInfo)(QnnSystemContext_Handle_t context, void *binary, uint64_t size, const QnnSystemContext_BinaryInfo_t **info, Qnn_ContextBinarySize_t *infoSize);
  Qnn_ErrorHandle_t (*systemContextGetMetaData)(QnnSystemContext_Handle_t context, const void *binary, uint64_t size, const QnnSystemContext_BinaryInfo_t **info);
  Qnn_ErrorHandle_t (*systemContextFree)(QnnSystemContext_Handle_t context);
  Qnn_ErrorHandle_t (*systemTensorGetMemoryFootprint)(Qnn_Tensor_t tensor, uint64_t *footprint);
  Qnn_ErrorHandle_t (*systemLogCreate)(QnnLog_Callback_t callback, QnnLog_Level_t level, Qnn_LogHandle_t *made);
  Qnn_ErrorHandle_t (*systemLogSetLogLevel)(Qnn_LogHandle_t log, QnnLog_Level_t level);
  Qnn_ErrorHandle_t (*systemLogFree)(Qnn_LogHandle_t log);
  // DLC and profile writers are not used: their places in the table, no more.
  void *systemDlcCreateFromFile;
  void *systemDlcCreateFromBinary;
  void *systemDlcComposeGraphs;
  void *systemDlcGetOpMappings;
  void *systemDlcFree;
  void *systemProfileCreateSerializationTarget;
  void *systemProfileSerializeEventData;
  void *systemProfileFreeSerializationTarget;
} QnnSystemInterface_ImplementationV1_t;

typedef struct {
  uint32_t backendId;
  const char *providerName;
  Qnn_Version_t systemApiVersion;
  union { QnnSystemInterface_ImplementationV1_t v1; };
} QnnSystemInterface_t;

Qnn_ErrorHandle_t QnnSystemInterface_getProviders(const QnnSystemInterface_t ***providers, uint32_t *count);

#ifdef __cplusplus
}
static_assert(sizeof(void *) != 8 || sizeof(QnnSystemInterface_t) == 32 + 16 * 8, "QnnSystemInterface_t");
#endif

#endif
