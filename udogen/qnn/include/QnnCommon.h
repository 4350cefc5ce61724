// udogen's own declarations of the QNN C API: handles, versions, the errors every part shares.
// Names and values are those of Qualcomm's public API reference; nothing here is text of the SDK.
// Python reads these files too (udogen/qnn/abi.py), so the preprocessor is used for guards, includes, __cplusplus
// blocks, plain numbers, and names for C and C++ that Python skips (initializers).
#ifndef UDOGEN_QNN_COMMON_H
#define UDOGEN_QNN_COMMON_H

#include <stddef.h>
#include <stdint.h>

#define QNN_API_VERSION_MAJOR 2
#define QNN_API_VERSION_MINOR 32
#define QNN_API_VERSION_PATCH 0
#define QNN_SUCCESS 0
#define QNN_BACKEND_ID_NULL 0

typedef uint64_t Qnn_ErrorHandle_t;

typedef void *Qnn_Handle_t;
typedef void *Qnn_BackendHandle_t;
typedef void *Qnn_ContextHandle_t;
typedef void *Qnn_DeviceHandle_t;
typedef void *Qnn_GraphHandle_t;
typedef void *Qnn_LogHandle_t;
typedef void *Qnn_MemHandle_t;
typedef void *Qnn_ProfileHandle_t;
typedef void *Qnn_SignalHandle_t;

typedef enum {
  QNN_COMMON_ERROR_NOT_SUPPORTED = 1000,
  QNN_COMMON_ERROR_MEM_ALLOC = 1002,
  QNN_COMMON_ERROR_SYSTEM = 1003,
  QNN_COMMON_ERROR_INVALID_ARGUMENT = 1004,
  QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED = 1005,
  QNN_COMMON_ERROR_PLATFORM_NOT_SUPPORTED = 1006,
  QNN_COMMON_ERROR_SYSTEM_COMMUNICATION = 1007,
  QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES = 1008,
  QNN_COMMON_ERROR_LOADING_BINARIES = 1009,
  QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE = 1010,
  QNN_COMMON_ERROR_SYSTEM_COMMUNICATION_FATAL = 1011,
  QNN_COMMON_ERROR_GENERAL = 1100,
  QNN_COMMON_ERROR_UNDEFINED = 0x7FFFFFFF
} QnnCommon_Error_t;

#endif
