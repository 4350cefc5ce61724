// Backends: the errors, configs and operation names of the library itself.
#ifndef UDOGEN_QNN_BACKEND_H
#define UDOGEN_QNN_BACKEND_H

#include "QnnClientTypes.h"

typedef enum {
  QNN_BACKEND_NO_ERROR = 0,
  QNN_BACKEND_ERROR_MEM_ALLOC = 1002,
  QNN_BACKEND_ERROR_UNSUPPORTED_PLATFORM = 1006,
  QNN_BACKEND_ERROR_CANNOT_INITIALIZE = 4000,
  QNN_BACKEND_ERROR_TERMINATE_FAILED = 4002,
  QNN_BACKEND_ERROR_NOT_SUPPORTED = 4003,
  QNN_BACKEND_ERROR_INVALID_ARGUMENT = 4004,
  QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND = 4005,
  QNN_BACKEND_ERROR_OP_PACKAGE_IF_PROVIDER_NOT_FOUND = 4006,
  QNN_BACKEND_ERROR_OP_PACKAGE_REGISTRATION_FAILED = 4007,
  QNN_BACKEND_ERROR_OP_PACKAGE_UNSUPPORTED_VERSION = 4008,
  QNN_BACKEND_ERROR_OP_PACKAGE_DUPLICATE = 4009,
  QNN_BACKEND_ERROR_INCONSISTENT_CONFIG = 4010,
  QNN_BACKEND_ERROR_INVALID_HANDLE = 4011,
  QNN_BACKEND_ERROR_INVALID_CONFIG = 4012,
  QNN_BACKEND_ERROR_UNDEFINED = 0x7FFFFFFF
} QnnBackend_Error_t;

typedef enum {
  QNN_BACKEND_CONFIG_OPTION_CUSTOM = 0,
  QNN_BACKEND_CONFIG_OPTION_ERROR_REPORTING = 1,
  QNN_BACKEND_CONFIG_OPTION_PLATFORM = 2,
  QNN_BACKEND_CONFIG_OPTION_UNDEFINED = 0x7FFFFFFF
} QnnBackend_ConfigOption_t;

typedef void *QnnBackend_CustomConfig_t;
typedef struct {
  QnnBackend_ConfigOption_t option;
  union {
    QnnBackend_CustomConfig_t customConfig;
    Qnn_ErrorReportingConfig_t errorConfig;
    const char *platformOption;
  };
} QnnBackend_Config_t;

#define QNN_BACKEND_CONFIG_INIT {QNN_BACKEND_CONFIG_OPTION_UNDEFINED, {NULL}}

typedef struct { const char *packageName, *name, *target; } QnnBackend_OperationName_t;

typedef enum {
  QNN_BACKEND_PROPERTY_OPTION_CUSTOM = 0,
  QNN_BACKEND_PROPERTY_OPTION_UNDEFINED = 0x7FFFFFFF
} QnnBackend_PropertyOption_t;

typedef void *QnnBackend_CustomProperty_t;
typedef struct {
  QnnBackend_PropertyOption_t option;
  union { QnnBackend_CustomProperty_t customProperty; };
} QnnBackend_Property_t;

#define QNN_BACKEND_PROPERTY_INIT {QNN_BACKEND_PROPERTY_OPTION_UNDEFINED, {NULL}}

#endif
