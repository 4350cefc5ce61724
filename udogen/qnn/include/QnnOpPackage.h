// What an op package exports: an interface provider that fills QnnOpPackage_Interface_t.
#ifndef UDOGEN_QNN_OP_PACKAGE_H
#define UDOGEN_QNN_OP_PACKAGE_H

#include "QnnCommon.h"
#include "QnnLog.h"
#include "QnnTypes.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  QNN_OP_PACKAGE_NO_ERROR = 0,
  QNN_OP_PACKAGE_ERROR_UNSUPPORTED_FEATURE = 1000,
  QNN_OP_PACKAGE_ERROR_GENERAL = 1100,
  QNN_OP_PACKAGE_ERROR_LIBRARY_ALREADY_INITIALIZED = 3000,
  QNN_OP_PACKAGE_ERROR_LIBRARY_NOT_INITIALIZED = 3001,
  QNN_OP_PACKAGE_ERROR_INVALID_HANDLE = 3002,
  QNN_OP_PACKAGE_ERROR_INVALID_INFRASTRUCTURE = 3100,
  QNN_OP_PACKAGE_ERROR_INVALID_INFO = 3101,
  QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE = 3110,
  QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT = 3200,
  QNN_OP_PACKAGE_ERROR_UNDEFINED = 0x7FFFFFFF
} QnnOpPackage_Error_t;

// Each backend completes these structures in its own header (CPU/QnnCpuOpPackage.h).
typedef struct _QnnOpPackage_GlobalInfrastructure_t *QnnOpPackage_GlobalInfrastructure_t;
typedef struct _QnnOpPackage_GraphInfrastructure_t *QnnOpPackage_GraphInfrastructure_t;
typedef struct _QnnOpPackage_Node_t *QnnOpPackage_Node_t;
typedef struct _QnnOpPackage_OpImpl_t *QnnOpPackage_OpImpl_t;
typedef struct _QnnOpPackage_OperationInfo_t *QnnOpPackage_OperationInfo_t;
typedef struct _QnnOpPackage_Optimization_t *QnnOpPackage_Optimization_t;
typedef struct _QnnOpPackage_PackageInfo_t QnnOpPackage_PackageInfo_t;

#define QNN_OP_PACKAGE_RESERVED_INFO_SIZE 12
typedef struct {
  const char *packageName;
  const char **operationNames;
  const QnnOpPackage_OperationInfo_t *operationInfo;
  uint32_t numOperations;
  const QnnOpPackage_Optimization_t *optimizations;
  uint32_t numOptimizations;
  const char *sdkBuildId;
  const Qnn_ApiVersion_t *sdkApiVersion;
  const QnnOpPackage_PackageInfo_t *packageInfo;
  const Qnn_Version_t *opsetVersion;
  size_t reserved[12];
} QnnOpPackage_Info_t;

typedef Qnn_ErrorHandle_t (*QnnOpPackage_InitFn_t)(QnnOpPackage_GlobalInfrastructure_t infrastructure);
typedef Qnn_ErrorHandle_t (*QnnOpPackage_TerminateFn_t)(void);
typedef Qnn_ErrorHandle_t (*QnnOpPackage_GetInfoFn_t)(const QnnOpPackage_Info_t **info);
typedef Qnn_ErrorHandle_t (*QnnOpPackage_ValidateOpConfigFn_t)(Qnn_OpConfig_t opConfig);
typedef Qnn_ErrorHandle_t (*QnnOpPackage_CreateOpImplFn_t)(
    QnnOpPackage_GraphInfrastructure_t graphInfrastructure, QnnOpPackage_Node_t node,
    QnnOpPackage_OpImpl_t *opImpl);
typedef Qnn_ErrorHandle_t (*QnnOpPackage_FreeOpImplFn_t)(QnnOpPackage_OpImpl_t opImpl);
typedef Qnn_ErrorHandle_t (*QnnOpPackage_LogInitializeFn_t)(QnnLog_Callback_t callback, QnnLog_Level_t maxLogLevel);
typedef Qnn_ErrorHandle_t (*QnnOpPackage_LogSetLevelFn_t)(QnnLog_Level_t maxLogLevel);
typedef Qnn_ErrorHandle_t (*QnnOpPackage_LogTerminateFn_t)(void);

typedef struct {
  QnnOpPackage_InitFn_t init;
  QnnOpPackage_TerminateFn_t terminate;
  QnnOpPackage_GetInfoFn_t getInfo;
  QnnOpPackage_ValidateOpConfigFn_t validateOpConfig;
  QnnOpPackage_CreateOpImplFn_t createOpImpl;
  QnnOpPackage_FreeOpImplFn_t freeOpImpl;
  QnnOpPackage_LogInitializeFn_t logInitialize;
  QnnOpPackage_LogSetLevelFn_t logSetLevel;
  QnnOpPackage_LogTerminateFn_t logTerminate;
} QnnOpPackage_ImplementationV1_4_t;

typedef struct {
  Qnn_Version_t interfaceVersion;
  union { QnnOpPackage_ImplementationV1_4_t v1_4; };
} QnnOpPackage_Interface_t;

typedef Qnn_ErrorHandle_t (*QnnOpPackage_InterfaceProvider_t)(QnnOpPackage_Interface_t *interface_);

#ifdef __cplusplus
}
static_assert(sizeof(void *) != 8 || sizeof(QnnOpPackage_Info_t) == 176, "QnnOpPackage_Info_t");
static_assert(sizeof(void *) != 8 || sizeof(QnnOpPackage_Interface_t) == 88, "QnnOpPackage_Interface_t");
#endif

#endif
