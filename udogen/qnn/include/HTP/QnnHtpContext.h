// Options and properties of a context that only HTP has.
#ifndef UDOGEN_QNN_HTP_CONTEXT_H
#define UDOGEN_QNN_HTP_CONTEXT_H

#include "QnnContext.h"

typedef enum {
  QNN_HTP_CONTEXT_CONFIG_OPTION_WEIGHT_SHARING_ENABLED = 1,
  QNN_HTP_CONTEXT_CONFIG_OPTION_REGISTER_MULTI_CONTEXTS = 2,
  QNN_HTP_CONTEXT_CONFIG_OPTION_FILE_READ_MEMORY_BUDGET = 3,
  QNN_HTP_CONTEXT_CONFIG_OPTION_DSP_MEMORY_PROFILING_ENABLED = 4,
  QNN_HTP_CONTEXT_CONFIG_OPTION_SHARE_RESOURCES = 5,
  QNN_HTP_CONTEXT_CONFIG_OPTION_IO_MEM_ESTIMATION = 6,
  QNN_HTP_CONTEXT_CONFIG_OPTION_PREPARE_ONLY = 7,
  QNN_HTP_CONTEXT_CONFIG_OPTION_INIT_ACCELERATION = 8,
  QNN_HTP_CONTEXT_CONFIG_OPTION_SKIP_VALIDATION_ON_BINARY_SECTION = 9,
  QNN_HTP_CONTEXT_CONFIG_OPTION_SHARE_RESOURCES_OPTIMIZATION_TYPE = 10,
  QNN_HTP_CONTEXT_CONFIG_OPTION_USE_EXTENDED_UDMA = 11,
  QNN_HTP_CONTEXT_CONFIG_OPTION_REGISTER_CONCURRENT_RESOURCE_SHARING = 12,
  QNN_HTP_CONTEXT_CONFIG_OPTION_LORA_WEIGHT_SHARING_ENABLED = 13,
  QNN_HTP_CONTEXT_CONFIG_OPTION_CONCURRENT_DESERIALIZATION_PATCH = 21,
  QNN_HTP_CONTEXT_CONFIG_OPTION_UNKNOWN = 0x7fffffff
} QnnHtpContext_ConfigOption_t;

typedef struct {
  Qnn_ContextHandle_t firstGroupHandle;
  uint64_t maxSpillFillBuffer;
} QnnHtpContext_GroupRegistration_t;

// A truth is a byte.
typedef struct {
  QnnHtpContext_ConfigOption_t option;
  union {
    uint8_t weightSharingEnabled;
    QnnHtpContext_GroupRegistration_t groupRegistration;
    uint64_t fileReadMemoryBudgetInMb;
    uint8_t shareResources;
    uint8_t isPrepareOnly;
    uint8_t useExtendedUdma;
    QnnHtpContext_GroupRegistration_t concurrentGroupRegistration;
  };
} QnnHtpContext_CustomConfig_t;

#define QNN_HTP_CONTEXT_CUSTOM_CONFIG_INIT {QNN_HTP_CONTEXT_CONFIG_OPTION_UNKNOWN, {0}}

typedef enum {
  QNN_HTP_CONTEXT_GET_PROP_BUFFER_START_ALIGNMENT = 1,
  QNN_HTP_CONTEXT_GET_PROP_MAX_SPILLFILL_BUFFER_SIZE = 2,
  QNN_HTP_CONTEXT_GET_PROP_WEIGHTS_BUFFER_SIZE = 3,
  QNN_HTP_CONTEXT_GET_PROP_UNDEFINED = 0x7fffffff
} QnnHtpContext_GetPropertyOption_t;

typedef struct {
  QnnHtpContext_GetPropertyOption_t option;
  union {
    uint64_t bufferStartAlignment;
    uint64_t spillfillBufferSize;
    uint64_t weightsBufferSize;
  };
} QnnHtpContext_CustomProperty_t;

#define QNN_HTP_CONTEXT_CUSTOM_PROPERTY_INIT {QNN_HTP_CONTEXT_GET_PROP_UNDEFINED, {0}}

#ifdef __cplusplus
static_assert(sizeof(void *) != 8 || sizeof(QnnHtpContext_CustomConfig_t) == 24, "QnnHtpContext_CustomConfig_t");
static_assert(sizeof(QnnHtpContext_CustomProperty_t) == 16, "QnnHtpContext_CustomProperty_t");
#endif

#endif
