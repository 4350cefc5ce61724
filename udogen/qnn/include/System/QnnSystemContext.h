// The description of a context binary, read without a backend.
#ifndef UDOGEN_QNN_SYSTEM_CONTEXT_H
#define UDOGEN_QNN_SYSTEM_CONTEXT_H

#include "QnnDevice.h"
#include "QnnTypes.h"

typedef enum {
  QNN_SYSTEM_CONTEXT_NO_ERROR = 0,
  QNN_SYSTEM_CONTEXT_ERROR_UNSUPPORTED_FEATURE = 1000,
  QNN_SYSTEM_CONTEXT_ERROR_INVALID_HANDLE = 30000,
  QNN_SYSTEM_CONTEXT_ERROR_INVALID_ARGUMENT = 30001,
  QNN_SYSTEM_CONTEXT_ERROR_OPERATION_FAILED = 30002,
  QNN_SYSTEM_CONTEXT_ERROR_MALFORMED_BINARY = 30010
} QnnSystemContext_Error_t;

typedef void *QnnSystemContext_Handle_t;

typedef struct {
  const char *graphName;
  uint32_t numGraphInputs;
  Qnn_Tensor_t *graphInputs;
  uint32_t numGraphOutputs;
  Qnn_Tensor_t *graphOutputs;
} QnnSystemContext_GraphInfoV1_t;

typedef struct {
  const char *graphName;
  uint32_t numGraphInputs;
  Qnn_Tensor_t *graphInputs;
  uint32_t numGraphOutputs;
  Qnn_Tensor_t *graphOutputs;
  uint32_t numUpdateableTensors;
  Qnn_Tensor_t *updateableTensors;
} QnnSystemContext_GraphInfoV2_t;

typedef struct {
  const char *graphName;
  uint32_t numGraphInputs;
  Qnn_Tensor_t *graphInputs;
  uint32_t numGraphOutputs;
  Qnn_Tensor_t *graphOutputs;
  uint32_t numUpdateableTensors;
  Qnn_Tensor_t *updateableTensors;
  uint32_t graphBlobInfoSize;
  void *graphBlobInfo;
  uint32_t startOpIndex;
  uint32_t endOpIndex;
} QnnSystemContext_GraphInfoV3_t;

typedef enum {
  QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_1 = 1,
  QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_2 = 2,
  QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_3 = 3,
  QNN_SYSTEM_CONTEXT_GRAPH_INFO_UNDEFINED = 0x7FFFFFFF
} QnnSystemContext_GraphInfoVersion_t;

typedef struct {
  QnnSystemContext_GraphInfoVersion_t version;
  union {
    QnnSystemContext_GraphInfoV1_t graphInfoV1;
    QnnSystemContext_GraphInfoV2_t graphInfoV2;
    QnnSystemContext_GraphInfoV3_t graphInfoV3;
  };
} QnnSystemContext_GraphInfo_t;

typedef struct {
  uint32_t backendId;
  const char *buildId;
  Qnn_Version_t coreApiVersion;
  Qnn_Version_t backendApiVersion;
  const char *socVersion;
  Qnn_Version_t hwInfoBlobVersion;
  Qnn_Version_t contextBlobVersion;
  uint32_t hwInfoBlobSize;
  void *hwInfoBlob;
  uint64_t contextBlobSize;
  uint32_t numContextTensors;
  Qnn_Tensor_t *contextTensors;
  uint32_t numGraphs;
  QnnSystemContext_GraphInfo_t *graphs;
} QnnSystemContext_BinaryInfoV1_t;

typedef struct {
  uint32_t backendId;
  const char *buildId;
  Qnn_Version_t coreApiVersion;
  Qnn_Version_t backendApiVersion;
  const char *socVersion;
  Qnn_Version_t hwInfoBlobVersion;
  Qnn_Version_t contextBlobVersion;
  uint32_t hwInfoBlobSize;
  void *hwInfoBlob;
  uint64_t contextBlobSize;
  uint32_t numContextTensors;
  Qnn_Tensor_t *contextTensors;
  uint32_t numGraphs;
  QnnSystemContext_GraphInfo_t *graphs;
  QnnDevice_PlatformInfo_t *platformInfo;
} QnnSystemContext_BinaryInfoV2_t;

typedef struct {
  uint32_t backendId;
  const char *buildId;
  Qnn_Version_t coreApiVersion;
  Qnn_Version_t backendApiVersion;
  const char *socVersion;
  Qnn_Version_t contextBlobVersion;
  uint64_t contextBlobSize;
  uint32_t numContextTensors;
  Qnn_Tensor_t *contextTensors;
  uint32_t numGraphs;
  QnnSystemContext_GraphInfo_t *graphs;
  QnnDevice_PlatformInfo_t *platformInfo;
  uint32_t contextMetadataSize;
  void *contextMetadata;
  uint32_t socModel;
} QnnSystemContext_BinaryInfoV3_t;

typedef enum {
  QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_1 = 1,
  QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_2 = 2,
  QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_3 = 3,
  QNN_SYSTEM_CONTEXT_BINARY_INFO_UNDEFINED = 0x7FFFFFFF
} QnnSystemContext_BinaryInfoVersion_t;

typedef struct {
  QnnSystemContext_BinaryInfoVersion_t version;
  union {
    QnnSystemContext_BinaryInfoV1_t contextBinaryInfoV1;
    QnnSystemContext_BinaryInfoV2_t contextBinaryInfoV2;
    QnnSystemContext_BinaryInfoV3_t contextBinaryInfoV3;
  };
} QnnSystemContext_BinaryInfo_t;

#endif
