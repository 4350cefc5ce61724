// Logging: a callback of printf's kind, given to the backend and by it to op packages.
#ifndef UDOGEN_QNN_LOG_H
#define UDOGEN_QNN_LOG_H

#include <stdarg.h>

#include "QnnCommon.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  QNN_LOG_NO_ERROR = 0,
  QNN_LOG_ERROR_MEM_ALLOC = 1002,
  QNN_LOG_ERROR_INITIALIZATION = 11002,
  QNN_LOG_ERROR_INVALID_ARGUMENT = 11003,
  QNN_LOG_ERROR_INVALID_HANDLE = 11004,
  QNN_LOG_ERROR_UNDEFINED = 0x7FFFFFFF
} QnnLog_Error_t;

typedef enum {
  QNN_LOG_LEVEL_ERROR = 1,
  QNN_LOG_LEVEL_WARN = 2,
  QNN_LOG_LEVEL_INFO = 3,
  QNN_LOG_LEVEL_VERBOSE = 4,
  QNN_LOG_LEVEL_DEBUG = 5,
  QNN_LOG_LEVEL_MAX = 0x7FFFFFFF
} QnnLog_Level_t;

typedef void (*QnnLog_Callback_t)(const char *fmt, QnnLog_Level_t level, uint64_t timestamp, va_list args);

#ifdef __cplusplus
}
#endif

#endif
