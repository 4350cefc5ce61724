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

#endif
