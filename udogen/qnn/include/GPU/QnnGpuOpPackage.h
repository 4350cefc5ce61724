// What the GPU backend hands to an op package, and what it takes back: OpenCL kernels with their arguments.
//
// The backend compiles and runs the kernels; a package only describes them, when the graph is finalized.
#ifndef UDOGEN_QNN_GPU_OP_PACKAGE_H
#define UDOGEN_QNN_GPU_OP_PACKAGE_H

#include <stdbool.h>

#include "GPU/QnnGpuGraph.h"
#include "QnnOpPackage.h"
#include "QnnTypes.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- what the package receives ----------------------------------------------------------------------------

typedef struct {
  char deviceVersion[128];
  uint32_t interfaceVersion[2];  // of the driver: major, minor
  char tierName[8];
  uint32_t compilerVersion[4];  // product, major, minor, patch
  size_t maxWorkGroupSize;
  size_t image1dBufferMaxWidth;
  size_t image2dMaxWidth;
  size_t image2dMaxHeight;
  size_t maxBufferAllocSize;
  uint32_t baseAddrAlignment;  // in bits
  size_t image2dArrayMaxWidth;
  size_t image2dArrayMaxHeight;
  size_t image2dArrayMaxDepth;
  bool predicateClobberFullRegister;
  bool isLocalMemorySupported;
  bool vector64Support;
} QnnGpu_DeviceProperties_t;

typedef struct _QnnOpPackage_GlobalInfrastructure_t {
  const Qnn_ApiVersion_t *sdkApiVersion;
  const QnnGpu_DeviceProperties_t *deviceProperties;
  const char *driverPath;
} QnnGpuOpPackage_GlobalInfrastructure_t;

typedef struct _QnnOpPackage_GraphInfrastructure_t {
  QnnGpu_Precision_t precisionMode;
  const QnnGpu_DeviceProperties_t *deviceProperties;
} QnnGpuOpPackage_GraphInfrastructure_t;

// A backend that keeps compiled kernels on disk throws them away when this text changes.
typedef struct _QnnOpPackage_PackageInfo_t {
  const char *kernelRepoHash;
} QnnGpuOpPackage_PackageInfo_t;

// ---- memory ----------------------------------------------------------------------------------------------

typedef enum {
  QNN_GPU_MEM_OBJ_TYPE_HOST = 0,
  QNN_GPU_MEM_OBJ_TYPE_BUFFER = 1,
  QNN_GPU_MEM_OBJ_TYPE_IMAGE2D = 2,
  QNN_GPU_MEM_OBJ_TYPE_IMAGE2D_ARRAY = 3,
  QNN_GPU_MEM_OBJ_TYPE_AGGREGATED_IMAGE2D = 4,
  QNN_GPU_MEM_OBJ_TYPE_AGGREGATED_IMAGE2D_ARRAY = 5,
  QNN_GPU_MEM_OBJ_TYPE_UNCLAIMED = 6,
  QNN_GPU_MEM_OBJ_TYPE_IMAGE1D_BUFFER = 7
} QnnGpu_MemoryObjectType_t;

typedef enum {
  QNN_GPU_MEM_LAYOUT_HWC = 0,
  QNN_GPU_MEM_LAYOUT_HCW = 1,
  QNN_GPU_MEM_LAYOUT_CHW = 2,
  QNN_GPU_MEM_LAYOUT_C_HWC4 = 3,
  QNN_GPU_MEM_LAYOUT_DHWC = 4,
  QNN_GPU_MEM_LAYOUT_CDHW = 5,
  QNN_GPU_MEM_LAYOUT_UNDEFINED = 0x7FFFFFFF
} QnnGpu_MemoryLayout_t;

typedef struct {
  uint32_t *bqBlockSize;
  uint32_t bqEncodingTensorId;
} QnnGpu_BlockEncodingInfo_t;

// dimensions: {elements} of a buffer, {height, width} of an image; offsets has as many.
// What lies behind `layout` is of another shape in nearly every release (GPU API 3.3: nothing; 3.12: as here; later:
// quantization): the caller writes zeros there and behind it, the receiver does not read it.
typedef struct {
  QnnGpu_MemoryObjectType_t type;
  Qnn_DataType_t dataType;
  uint32_t *dimensions;
  uint32_t *offsets;
  uint32_t numDimensions;
  QnnGpu_MemoryLayout_t layout;
  QnnGpu_BlockEncodingInfo_t blockEncodingInfo;
  const char *name;
} QnnGpu_MemoryObject_t;

// ---- the node --------------------------------------------------------------------------------------------

typedef struct {
  uint32_t id;
  const QnnGpu_MemoryObject_t *memoryObject;
} QnnGpu_TensorStorageType_t;

// Both arrays end in NULL; without optimizations there is one config.
typedef struct _QnnOpPackage_Node_t {
  uint32_t optimization;
  const Qnn_OpConfig_t **configs;
  const QnnGpu_TensorStorageType_t **storageTypes;
  int32_t kernelVariant;
} QnnGpuOpPackage_Node_t;

// ---- what the package returns: an operation ------------------------------------------------------------------

// Only outputs of the type NATIVE may be claimed.
typedef struct {
  uint32_t opConfigIndex;
  uint32_t outputIndex;
  const QnnGpu_MemoryObject_t *memoryObject;
} QnnGpu_OutputClaim_t;

typedef enum {
  QNN_GPU_KERNEL_ARG_TYPE_OP_INPUT_READ = 0,
  QNN_GPU_KERNEL_ARG_TYPE_OP_INPUT_READWRITE = 1,
  QNN_GPU_KERNEL_ARG_TYPE_OP_OUTPUT_WRITE = 2,
  QNN_GPU_KERNEL_ARG_TYPE_INTERNAL_READ = 3,
  QNN_GPU_KERNEL_ARG_TYPE_INTERNAL_READWRITE = 4,
  QNN_GPU_KERNEL_ARG_TYPE_INTERNAL_WRITE = 5,
  QNN_GPU_KERNEL_ARG_TYPE_DATA = 6,
  QNN_GPU_KERNEL_ARG_TYPE_LOCAL = 7,
  QNN_GPU_KERNEL_ARG_TYPE_NULL_PTR = 8,
  QNN_GPU_KERNEL_ARG_TYPE_OP_TENSOR_PARAM = 9
} QnnGpu_KernelArgType_t;

typedef struct {
  uint32_t opConfigIndex;
  uint32_t tensorIndex;
  uint32_t element;
} QnnGpu_TensorKernelArg_t;

typedef enum {
  QNN_GPU_KERNEL_ARG_CL_TYPE_CHAR = 0,
  QNN_GPU_KERNEL_ARG_CL_TYPE_UCHAR = 1,
  QNN_GPU_KERNEL_ARG_CL_TYPE_SHORT = 2,
  QNN_GPU_KERNEL_ARG_CL_TYPE_USHORT = 3,
  QNN_GPU_KERNEL_ARG_CL_TYPE_INT = 4,
  QNN_GPU_KERNEL_ARG_CL_TYPE_UINT = 5,
  QNN_GPU_KERNEL_ARG_CL_TYPE_LONG = 6,
  QNN_GPU_KERNEL_ARG_CL_TYPE_ULONG = 7,
  QNN_GPU_KERNEL_ARG_CL_TYPE_FLOAT = 8,
  QNN_GPU_KERNEL_ARG_CL_TYPE_DOUBLE = 9
} QnnGpu_DataKernelArgType_t;

typedef struct {
  QnnGpu_DataKernelArgType_t type;
  union {
    int8_t qnnChar;
    uint8_t qnnUChar;
    int16_t qnnShort;
    uint16_t qnnUShort;
    int32_t qnnInt;
    uint32_t qnnUInt;
    int64_t qnnLong;
    uint64_t qnnULong;
    float qnnFloat;
    double qnnDouble;
  };
} QnnGpu_DataKernelArg_t;

typedef struct {
  uint32_t size;  // in bytes
} QnnGpu_LocalKernelArg_t;

typedef struct {
  QnnGpu_KernelArgType_t type;
  union {
    QnnGpu_TensorKernelArg_t tensor;
    QnnGpu_DataKernelArg_t data;
    QnnGpu_LocalKernelArg_t local;
  };
} QnnGpu_KernelArg_t;

typedef enum {
  QNN_GPU_KERNEL_SOURCE_TYPE_TEXT = 0,
  QNN_GPU_KERNEL_SOURCE_TYPE_BINARY = 1
} QnnGpu_KernelSourceType_t;

typedef enum {
  QNN_GPU_KERNEL_TUNING_LOCAL_WORK_SIZE = 0,
  QNN_GPU_KERNEL_TUNING_UNDEFINED = 0x7FFFFFFF
} QnnGpu_KernelTuningOption_t;

typedef struct {
  uint32_t minValue[3];
  uint32_t maxValue[3];
  uint32_t stepSize[3];
} QnnGpu_KernelLocalWorkSizeTuning_t;

typedef struct {
  QnnGpu_KernelTuningOption_t option;
  union { QnnGpu_KernelLocalWorkSizeTuning_t lws; };
} QnnGpu_KernelTuningConfig_t;

// The backend knows compiled programs by `name` alone: two kernels of one name are one program, the first.
// `args` ends in NULL, and so does `tuningConfigs`, which may be NULL itself; `reserved` must be.
typedef struct {
  const void *kernelSource;
  size_t sourceLength;
  QnnGpu_KernelSourceType_t sourceType;
  const char *buildOptions;
  size_t globalWorkDim;
  size_t globalWorkSizes[3];
  size_t localWorkDim;
  size_t localWorkSizes[3];
  QnnGpu_KernelArg_t **args;
  const char *name;
  uint32_t isDynamic;
  QnnGpu_KernelTuningConfig_t **tuningConfigs;
  void *reserved;
} QnnGpu_Kernel_t;

// Three arrays that end in NULL, or are NULL.
typedef struct _QnnOpPackage_OpImpl_t {
  QnnGpu_OutputClaim_t **outputClaims;
  QnnGpu_MemoryObject_t **memoryObjects;
  QnnGpu_Kernel_t **kernels;
} QnnGpu_Operation_t;

#ifdef __cplusplus
}
static_assert(sizeof(void *) != 8 || sizeof(QnnGpu_DeviceProperties_t) == 240, "QnnGpu_DeviceProperties_t");
static_assert(sizeof(void *) != 8 || sizeof(QnnGpu_MemoryObject_t) == 56, "QnnGpu_MemoryObject_t");
static_assert(sizeof(void *) != 8 || sizeof(QnnGpuOpPackage_Node_t) == 32, "QnnGpuOpPackage_Node_t");
static_assert(sizeof(void *) != 8 || sizeof(QnnGpu_KernelArg_t) == 24, "QnnGpu_KernelArg_t");
static_assert(sizeof(void *) != 8 || sizeof(QnnGpu_Kernel_t) == 136, "QnnGpu_Kernel_t");
#endif

#endif
