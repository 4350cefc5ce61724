// Signals: abort or time out a running call, where the backend can.
#ifndef UDOGEN_QNN_SIGNAL_H
#define UDOGEN_QNN_SIGNAL_H

#include "QnnTypes.h"

typedef enum {
  QNN_SIGNAL_NO_ERROR = 0,
  QNN_SIGNAL_ERROR_UNSUPPORTED = 1000,
  QNN_SIGNAL_ERROR_MEM_ALLOC = 1002,
  QNN_SIGNAL_ERROR_SIGNAL_IN_USE = 9000,
  QNN_SIGNAL_ERROR_SIGNAL_IDLE = 9001,
  QNN_SIGNAL_ERROR_INVALID_ARGUMENT = 9002,
  QNN_SIGNAL_ERROR_INVALID_HANDLE = 9003,
  QNN_SIGNAL_ERROR_TIMEOUT = 9004,
  QNN_SIGNAL_ERROR_INCOMPATIBLE_SIGNAL_TYPE = 9005,
  QNN_SIGNAL_ERROR_UNDEFINED = 0x7FFFFFFF
} QnnSignal_Error_t;

typedef enum {
  QNN_SIGNAL_CONFIG_OPTION_CUSTOM = 0,
  QNN_SIGNAL_CONFIG_OPTION_ABORT = 1,
  QNN_SIGNAL_CONFIG_OPTION_TIMEOUT = 2,
  QNN_SIGNAL_CONFIG_UNDEFINED = 0x7FFFFFFF
} QnnSignal_ConfigOption_t;

typedef void *QnnSignal_CustomConfig_t;
typedef struct {
  QnnSignal_ConfigOption_t option;
  union {
    QnnSignal_CustomConfig_t customConfig;
    uint64_t timeoutDurationUs;
  };
} QnnSignal_Config_t;

#endif
