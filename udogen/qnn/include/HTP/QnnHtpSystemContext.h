// What HTP adds to the description of a context binary: what the opaque blobs in it are.
#ifndef UDOGEN_QNN_HTP_SYSTEM_CONTEXT_H
#define UDOGEN_QNN_HTP_SYSTEM_CONTEXT_H

#include "QnnCommon.h"

// hwInfoBlob, in descriptions of version 1 and 2.
typedef struct { uint32_t graphListIndex; uint64_t spillFillBufferSize; } QnnHtpSystemContext_HwBlobInfoV1_t;
typedef struct {
  uint32_t version;
  union { QnnHtpSystemContext_HwBlobInfoV1_t contextBinaryHwInfoBlobV1_t; };
} QnnHtpSystemContext_HwBlobInfo_t;

// graphBlobInfo, in descriptions of graphs of version 3: the first, and where its size has space for it, the second behind it.
typedef struct {
  uint64_t spillFillBufferSize;
  uint32_t vtcmSize;
  uint32_t optimizationLevel;
  uint8_t htpDlbc;
  uint64_t numHvxThreads;
} QnnHtpSystemContext_GraphBlobInfoV1_t;
typedef struct {
  uint32_t version;
  union { QnnHtpSystemContext_GraphBlobInfoV1_t contextBinaryGraphBlobInfoV1; };
} QnnHtpSystemContext_GraphBlobInfo_t;
typedef struct {
  uint32_t version;
  uint64_t nativeKChannelSize;
  uint64_t nativeVChannelSize;
  uint32_t isSafeShareIO;
  uint64_t ioTensorSize;
  uint64_t opDataSize;
  uint64_t constSize;
  uint64_t ddrTensorSize;
  uint64_t sharedWeightsSize;
} QnnHtpSystemContext_GraphBlobInfoV2_t;

// contextMetadata, in descriptions of version 3.
typedef struct { uint32_t dspArch; } QnnHtpSystemContext_ContextBlobInfoV1_t;
typedef struct {
  uint32_t version;
  union { QnnHtpSystemContext_ContextBlobInfoV1_t contextBinaryContextBlobInfoV1; };
} QnnHtpSystemContext_ContextBlobInfo_t;

#endif
