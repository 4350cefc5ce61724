// What the custom memory of a descriptor points at: many tensors in one buffer, and buffers of a whole context.
#ifndef UDOGEN_QNN_HTP_MEM_H
#define UDOGEN_QNN_HTP_MEM_H

#include "QnnCommon.h"

typedef uint32_t QnnHtpMem_QurtAddress_t;

typedef struct {
  int32_t fd;
  uint64_t offset;
} QnnHtpMem_SharedBufferConfig_t;

typedef enum {
  QNN_HTP_MEM_QURT = 0,
  QNN_HTP_MEM_SHARED_BUFFER = 1,
  QNN_HTP_MEM_WEIGHTS_BUFFER = 2,
  QNN_HTP_MEM_SHARED_SPILLFILL_BUFFER = 3,
  QNN_HTP_MEM_UNDEFINED = 0x7FFFFFFF
} QnnHtpMem_Type_t;

typedef struct {
  QnnHtpMem_Type_t type;
  uint64_t size;  // of the whole buffer
  union {
    QnnHtpMem_QurtAddress_t qurtAddress;
    QnnHtpMem_SharedBufferConfig_t sharedBufferConfig;
    QnnHtpMem_SharedBufferConfig_t weightsBufferConfig;
    QnnHtpMem_SharedBufferConfig_t sharedSpillfillBufferConfig;
    QnnHtpMem_SharedBufferConfig_t spillfillBufferConfig;  // the same, as Qualcomm's tutorial names it
  };
} QnnMemHtp_Descriptor_t;

#define QNN_HTP_MEM_DESCRIPTOR_INIT {QNN_HTP_MEM_UNDEFINED, 0, {0}}

#ifdef __cplusplus
static_assert(sizeof(void *) != 8 || sizeof(QnnMemHtp_Descriptor_t) == 32, "QnnMemHtp_Descriptor_t");
#endif

#endif
