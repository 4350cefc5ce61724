// What the CPU backend hands to an op: the node with its tensors and parameters.
#ifndef UDOGEN_QNN_CPU_OP_PACKAGE_H
#define UDOGEN_QNN_CPU_OP_PACKAGE_H

#include "QnnOpPackage.h"
#include "QnnTypes.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QNN_CPUOPPACKAGE_TENSOR_DATA_FORMAT_FLAT_BUFFER 0
typedef uint32_t QnnCpuOpPackage_TensorDataFormat_t;
typedef double QnnCpuOpPackage_ProfileData_t;

typedef enum {
  QNN_CPU_DATATYPE_INT_8 = 0x0008,
  QNN_CPU_DATATYPE_INT_32 = 0x0032,
  QNN_CPU_DATATYPE_UINT_8 = 0x0108,
  QNN_CPU_DATATYPE_UINT_32 = 0x0132,
  QNN_CPU_DATATYPE_FLOAT_32 = 0x0232,
  QNN_CPU_DATATYPE_BOOL_8 = 0x0508,
  QNN_CPU_DATATYPE_UNDEFINED = 0x7FFFFFFF
} QnnCpuOpPackage_DataType_t;

typedef enum {
  QNN_CPU_PARAMTYPE_SCALAR = 0,
  QNN_CPU_PARAMTYPE_TENSOR = 1,
  QNN_CPU_PARAMTYPE_STRING = 2,
  QNN_CPU_PARAMTYPE_UNDEFINED = 0xFFFFFFFF
} QnnCpuOpPackage_ParamType_t;

typedef enum {
  QNN_CPU_MSG_ERROR = 1,
  QNN_CPU_MSG_DEBUG = 2,
  QNN_CPU_MSG_LOW = 3,
  QNN_CPU_MSG_MED = 4,
  QNN_CPU_MSG_HIGH = 5,
  QNN_CPU_MSG_UNDEFINED = 0x7FFFFFFF
} QnnCpuOpPackage_MsgType_t;

typedef enum {
  QNN_CPU_PROFILE_BASIC = 1,
  QNN_CPU_PROFILE_DETAILED = 2,
  QNN_CPU_PROFILE_UNDEFINED = 0x7FFFFFFF
} QnnCpuOpPackage_ProfileType_t;

// libQnnCpu 2.47 passes NULL for both infrastructures.
typedef struct _QnnOpPackage_GlobalInfrastructure_t {
  void (*reportMessage)(QnnCpuOpPackage_MsgType_t msgType, const char *msg, ...);
  void (*profile)(QnnCpuOpPackage_ProfileType_t profileType, QnnCpuOpPackage_ProfileData_t timeInMsec);
} QnnCpuOpPackage_GlobalInfra_t;
typedef struct _QnnOpPackage_GraphInfrastructure_t QnnCpuOpPackage_GraphInfrastructure_t;

typedef Qnn_ErrorHandle_t (*QnnCpuOpPackage_OpImplFn_t)(void *opPkgNodeData);
typedef struct _QnnOpPackage_OpImpl_t {
  QnnCpuOpPackage_OpImplFn_t opImplFn;
  void *userData;
} QnnCpuOpPackage_OpImpl_t;

typedef struct {
  QnnCpuOpPackage_TensorDataFormat_t dataFormat;
  QnnCpuOpPackage_DataType_t dataType;
  uint32_t rank;
  uint32_t *maxDimensions;
  uint32_t *currentDimensions;
  void *data;
  Qnn_QuantizeParams_t quantizeParams;
} QnnCpuOpPackage_Tensor_t;

// Every number is delivered as a double, whatever type the graph gave it.
typedef struct {
  QnnCpuOpPackage_ParamType_t type;
  const char *name;
  union {
    double scalarParam;
    const char *string;
    QnnCpuOpPackage_Tensor_t *tensorParam;
  };
} QnnCpuOpPackage_Param_t;

typedef struct _QnnOpPackage_Node_t {
  const char *name;
  const char *packageName;
  const char *typeName;
  uint32_t numOfParams;
  QnnCpuOpPackage_Param_t **params;
  uint32_t numOfInputs;
  QnnCpuOpPackage_Tensor_t **inputs;
  uint32_t numOfOutputs;
  QnnCpuOpPackage_Tensor_t **outputs;
} QnnCpuOpPackage_Node_t;

#ifdef __cplusplus
}
static_assert(sizeof(void *) != 8 || sizeof(QnnCpuOpPackage_OpImpl_t) == 16, "QnnCpuOpPackage_OpImpl_t");
static_assert(sizeof(void *) != 8 || sizeof(QnnCpuOpPackage_Tensor_t) == 80, "QnnCpuOpPackage_Tensor_t");
static_assert(sizeof(void *) != 8 || sizeof(QnnCpuOpPackage_Param_t) == 24, "QnnCpuOpPackage_Param_t");
static_assert(sizeof(void *) != 8 || sizeof(QnnCpuOpPackage_Node_t) == 72, "QnnCpuOpPackage_Node_t");
#endif

#endif
