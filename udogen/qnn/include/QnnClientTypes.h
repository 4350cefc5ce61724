// The types of QnnTypes.h that only clients use: packages do without this header.
#ifndef UDOGEN_QNN_CLIENT_TYPES_H
#define UDOGEN_QNN_CLIENT_TYPES_H

#include "QnnTypes.h"

#define QNN_TENSOR_DATA_FORMAT_SPARSE 1
#define QNN_TENSOR_DATA_FORMAT_CODEBOOK 2
#define QNN_TENSOR_DATA_FORMAT_MX 3
#define QNN_TENSOR_DATA_FORMAT_UBWC_RGBA8888 4
#define QNN_TENSOR_DATA_FORMAT_UBWC_NV12 5
#define QNN_TENSOR_DATA_FORMAT_UBWC_NV12_Y 6
#define QNN_TENSOR_DATA_FORMAT_UBWC_NV12_UV 7
#define QNN_TENSOR_DATA_FORMAT_HMX_WEIGHT_LAYOUT 8
#define QNN_TENSOR_DATA_FORMAT_UBWC_NV124R 9
#define QNN_TENSOR_DATA_FORMAT_UBWC_NV124R_Y 10
#define QNN_TENSOR_DATA_FORMAT_UBWC_NV124R_UV 11

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  QNN_PRIORITY_LOW = 0,
  QNN_PRIORITY_NORMAL = 100,
  QNN_PRIORITY_DEFAULT = 100,
  QNN_PRIORITY_NORMAL_HIGH = 150,
  QNN_PRIORITY_HIGH = 200,
  QNN_PRIORITY_UNDEFINED = 0x7FFFFFFF
} Qnn_Priority_t;

typedef enum {
  QNN_ERROR_REPORTING_LEVEL_BRIEF = 0,
  QNN_ERROR_REPORTING_LEVEL_DETAILED = 1,
  QNN_ERROR_REPORTING_LEVEL_UNDEFINED = 0x7FFFFFFF
} Qnn_ErrorReportingLevel_t;

typedef struct { Qnn_ErrorReportingLevel_t reportingLevel; uint32_t storageLimit; } Qnn_ErrorReportingConfig_t;

typedef uint64_t Qnn_ContextBinarySize_t;

#ifdef __cplusplus
}
#endif

#endif
