// ScaleClamp for DSP V65 and V66, in the style of qnn-op-package-generator: five functions, and new_… and free_….
#include <math.h>
#include <string.h>

#include "DSP/QnnDspOpPackage.h"
#include "DspOps.hpp"

static char opName[] = "ScaleClamp";
static Udo_QuantizationType_t quantization[] = {UDO_QUANTIZATION_TF};

// A copy of the parameters, which exist only while the factory is created.
typedef struct {
  scaleclampOpFactory_t factory;
  float limit;
  uint32_t channels;
  float gain[64];
} ScaleClampFactory;

Udo_ErrorType_t scaleclamp_createOpFactory(QnnOpPackage_GlobalInfrastructure_t globalInfra, Udo_CoreType_t core,
                                           void* perFactoryInfrastructure, Udo_String_t operationType,
                                           uint32_t numOfStaticParams, Udo_Param_t* staticParams,
                                           Udo_OpFactory_t* opFactory) {
  if (operationType == NULL || opFactory == NULL) {
    return UDO_INVALID_ARGUMENT;
  }
  ScaleClampFactory* made =
      (ScaleClampFactory*)(*(globalInfra->dspGlobalInfra->hexNNv2Infra.udoMalloc))(sizeof(ScaleClampFactory));
  const size_t size = strlen(operationType) + 1;
  made->factory.opType = (Udo_String_t)(*(globalInfra->dspGlobalInfra->hexNNv2Infra.udoMalloc))(size);
  strlcpy(made->factory.opType, operationType, size);
  made->factory.numOfStaticParams = numOfStaticParams;
  for (uint32_t i = 0; i < numOfStaticParams; i++) {
    if (staticParams[i].paramType == UDO_PARAMTYPE_SCALAR) {
      made->limit = staticParams[i].scalarParam.dataValue.floatValue;
    } else {
      made->channels = staticParams[i].tensorParam.maxDimensions[0];
      memcpy(made->gain, staticParams[i].tensorParam.tensorData, made->channels * sizeof(float));
    }
  }
  *opFactory = (Udo_OpFactory_t)made;
  return UDO_NO_ERROR;
}

Udo_ErrorType_t scaleclamp_releaseOpFactory(QnnOpPackage_GlobalInfrastructure_t globalInfra, Udo_OpFactory_t opFactory) {
  (*(globalInfra->dspGlobalInfra->hexNNv2Infra.udoFree))(((ScaleClampFactory*)opFactory)->factory.opType);
  (*(globalInfra->dspGlobalInfra->hexNNv2Infra.udoFree))(opFactory);
  return UDO_NO_ERROR;
}

Udo_ErrorType_t scaleclamp_validateOperation(Udo_String_t operationType, uint32_t numOfStaticParams,
                                             const Udo_Param_t* staticParams) {
  return strcmp(operationType, opName) == 0 && numOfStaticParams == 2 ? UDO_NO_ERROR : UDO_INVALID_ARGUMENT;
}

typedef struct {
  const ScaleClampFactory* factory;
  const Udo_TensorParam_t* in;
  Udo_TensorParam_t* out;
  uint32_t count;
} ScaleClampWork;

static void work(void* perOpInfrastructure, void* userData) {
  const ScaleClampWork* all = (const ScaleClampWork*)userData;
  const float inMin = all->in->quantizeParams.TFParams.minValue;
  const float inStep = (all->in->quantizeParams.TFParams.maxValue - inMin) / 255.0f;
  const float outMin = all->out->quantizeParams.TFParams.minValue;
  const float outStep = (all->out->quantizeParams.TFParams.maxValue - outMin) / 255.0f;
  const uint8_t* in = (const uint8_t*)all->in->tensorData;
  uint8_t* out = (uint8_t*)all->out->tensorData;
  for (uint32_t i = 0; i < all->count; i++) {
    const float real = (inMin + inStep * in[i]) * all->factory->gain[i % all->factory->channels];
    const float stored = roundf((fminf(real, all->factory->limit) - outMin) / outStep);
    out[i] = (uint8_t)fminf(fmaxf(stored, 0.0f), 255.0f);
  }
}

Udo_ErrorType_t scaleclamp_executeOp(QnnOpPackage_GlobalInfrastructure_t globalInfra, Udo_Operation_t operation,
                                     bool blocking, const uint32_t ID, Udo_ExternalNotify_t notifyFunc) {
  if (operation == NULL) {
    return UDO_INVALID_ARGUMENT;
  }
  OpParams_t* op = (OpParams_t*)operation;
  Udo_TensorParam_t* in = &op->InputParams[0];
  Udo_TensorParam_t* out = &op->outputParams[0];
  uint32_t count = 1;
  for (uint32_t k = 0; k < in->tensorRank; k++) {
    count *= in->currDimensions[k];
    out->currDimensions[k] = in->currDimensions[k];
  }
  out->dataType = UDO_DATATYPE_FIXED_8;
  if ((*(globalInfra->dspGlobalInfra->hexNNv2Infra.udoSetOutputTensorSize))(op->opInfra, 0, count) != 0) {
    return UDO_UNSUPPORTED_FEATURE;
  }
  ScaleClampWork all = {(const ScaleClampFactory*)op->opFactory, in, out, count};
  (*(globalInfra->dspGlobalInfra->hexNNv2Infra.udoRunWorkerThreads))(op->opInfra, 1, work, &all);
  return UDO_NO_ERROR;
}

Udo_ErrorType_t scaleclamp_queryOperation(Udo_String_t operationType, uint32_t numOfStaticParams,
                                          const Udo_Param_t* staticParams, uint32_t* numOfInputs,
                                          Udo_QuantizationType_t** inputsQuantTypes,
                                          Udo_HexNNTensorLayout_t** inputsLayouts, uint32_t* numOfOutputs,
                                          Udo_QuantizationType_t** outputsQuantTypes,
                                          Udo_HexNNTensorLayout_t** outputsLayouts) {
  *numOfInputs = 1;
  *inputsQuantTypes = quantization;
  *inputsLayouts = NULL;
  *numOfOutputs = 1;
  *outputsQuantTypes = quantization;
  *outputsLayouts = NULL;
  return UDO_NO_ERROR;
}

UdoDspShared* new_scaleclamp(QnnOpPackage_GlobalInfrastructure_t globalInfra) {
  UdoDspShared* made = (UdoDspShared*)(*(globalInfra->dspGlobalInfra->hexNNv2Infra.udoMalloc))(sizeof(UdoDspShared));
  if (made == NULL) {
    return NULL;
  }
  made->opType = opName;
  made->numOfStaticParams = 2;
  made->numOfInputs = 1;
  made->numOfOutputs = 1;
  made->createOpFactory = scaleclamp_createOpFactory;
  made->releaseOpFactory = scaleclamp_releaseOpFactory;
  made->validateOp = scaleclamp_validateOperation;
  made->executeOp = scaleclamp_executeOp;
  made->queryOp = scaleclamp_queryOperation;
  return made;
}

Udo_ErrorType_t free_scaleclamp(QnnOpPackage_GlobalInfrastructure_t globalInfra, UdoDspShared* opInfo) {
  (*(globalInfra->dspGlobalInfra->hexNNv2Infra.udoFree))(opInfo);
  return UDO_NO_ERROR;
}
