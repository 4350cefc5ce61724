// What a client may ask of one graph on the GPU backend.
#ifndef UDOGEN_QNN_GPU_GRAPH_H
#define UDOGEN_QNN_GPU_GRAPH_H

#include "QnnGraph.h"

// In which precision the backend keeps tensors between ops; USER_PROVIDED leaves them as the client made them.
typedef enum {
  QNN_GPU_PRECISION_FP32 = 0,
  QNN_GPU_PRECISION_FP16 = 1,
  QNN_GPU_PRECISION_HYBRID = 2,
  QNN_GPU_PRECISION_USER_PROVIDED = 3
} QnnGpu_Precision_t;

typedef struct {
  QnnGpu_Precision_t precision;
  uint8_t disableMemoryOptimizations;
  uint8_t disableNodeOptimizations;
  uint8_t disableQueueRecording;
} QnnGpuGraph_CustomConfig_t;

#endif
