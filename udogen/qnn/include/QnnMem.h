// Memory that the client registers instead of copying.
#ifndef UDOGEN_QNN_MEM_H
#define UDOGEN_QNN_MEM_H

#include "QnnTypes.h"

typedef enum {
  QNN_MEM_NO_ERROR = 0,
  QNN_MEM_ERROR_NOT_SUPPORTED = 1000,
  QNN_MEM_ERROR_INVALID_ARGUMENT = 8000,
  QNN_MEM_ERROR_INVALID_HANDLE = 8001,
  QNN_MEM_ERROR_ALREADY_REGISTERED = 8002,
  QNN_MEM_ERROR_MAPPING = 8003,
  QNN_MEM_ERROR_INVALID_SHAPE = 8004,
  QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE = 8005,
  QNN_MEM_ERROR_UNDEFINED = 0x7FFFFFFF
} QnnMem_Error_t;

typedef enum {
  QNN_MEM_TYPE_ION = 1,
  QNN_MEM_TYPE_CUSTOM = 2,
  QNN_MEM_TYPE_DMA_BUF = 3,
  QNN_MEM_TYPE_UNDEFINED = 0x7FFFFFFF
} Qnn_MemType_t;

typedef struct {
  uint32_t numDim;
  uint32_t *dimSize;
  const char *shapeConfig;
} Qnn_MemShape_t;

#define QNN_MEM_SHAPE_INIT {0, NULL, NULL}

typedef struct { int32_t fd; } Qnn_MemIonInfo_t;
typedef struct { int32_t fd; void *data; } Qnn_MemDmaBufInfo_t;
typedef void *Qnn_MemInfoCustom_t;

typedef struct {
  Qnn_MemShape_t memShape;
  Qnn_DataType_t dataType;
  Qnn_MemType_t memType;
  union {
    Qnn_MemIonInfo_t ionInfo;
    Qnn_MemInfoCustom_t customInfo;
    Qnn_MemDmaBufInfo_t dmaBufInfo;
  };
} Qnn_MemDescriptor_t;

#define QNN_MEM_DESCRIPTOR_INIT {QNN_MEM_SHAPE_INIT, QNN_DATATYPE_UNDEFINED, QNN_MEM_TYPE_UNDEFINED, {{-1}}}

#endif
