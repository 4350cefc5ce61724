// What the DSP backend (V65, V66) exchanges with an op package: UDO's functions, one set per operation.
#ifndef UDOGEN_QNN_DSP_OP_PACKAGE_H
#define UDOGEN_QNN_DSP_OP_PACKAGE_H

#include "DSP/Udo/UdoImplDsp.h"
#include "QnnOpPackage.h"
#include "QnnTypes.h"

#ifdef __cplusplus
extern "C" {
#endif

// What init is given.
typedef struct _QnnOpPackage_GlobalInfrastructure_t {
  Udo_DspGlobalInfrastructure_t *dspGlobalInfra;
} QnnDspOpPackage_GlobalInfrastructure_t;

// What getInfo's operationInfo leads to, one per operation.
typedef struct _QnnOpPackage_OperationInfo_t {
  char *opType;
  uint32_t numOfStaticParams;
  uint32_t numOfInputs;
  uint32_t numOfOutputs;
  Udo_CreateOpFactoryFunction_t createOpFactory;
  Udo_CreateOperationFunction_t createOperation;
  Udo_ExecuteOpFunction_t executeOp;
  Udo_ReleaseOpFunction_t releaseOp;
  Udo_ReleaseOpFactoryFunction_t releaseOpFactory;
  Udo_ValidateOperationFunction_t validateOp;
  Udo_QueryOperationFunction_t queryOp;
} QnnDspOpPackage_OperationInfo_t;

#ifdef __cplusplus
}
static_assert(sizeof(QnnDspOpPackage_OperationInfo_t) == (sizeof(void *) == 8 ? 80 : 44),
              "QnnDspOpPackage_OperationInfo_t");
#endif

#endif
