// Configs that hold for the whole process.
#ifndef UDOGEN_QNN_GLOBAL_CONFIG_H
#define UDOGEN_QNN_GLOBAL_CONFIG_H

#include "QnnTypes.h"

typedef enum {
  QNN_GLOBAL_CONFIG_NO_ERROR = 0,
  QNN_GLOBAL_CONFIG_ERROR_INVALID_CONFIG = 15000,
  QNN_GLOBAL_CONFIG_ERROR_UNDEFINED = 0x7FFFFFFF
} QnnGlobalConfig_Error_t;

typedef enum {
  QNN_GLOBAL_CONFIG_OPTION_SOC_MODEL = 0,
  QNN_GLOBAL_CONFIG_OPTION_UNDEFINED = 0x7FFFFFFF
} QnnGlobalConfig_ConfigOption_t;

typedef struct {
  QnnGlobalConfig_ConfigOption_t option;
  union { uint32_t socModel; };
} QnnGlobalConfig_t;

#endif
