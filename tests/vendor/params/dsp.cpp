#include "DspOps.hpp"
namespace {
char opType[] = "@OP@";
Udo_QuantizationType_t kinds[] = {UDO_QUANTIZATION_NONE};
struct Made { @LOWER@OpFactory_t factory; float sum; };
Udo_ErrorType_t create(QnnOpPackage_GlobalInfrastructure_t infra, Udo_CoreType_t, void*, Udo_String_t, uint32_t count,
                       Udo_Param_t* params, Udo_OpFactory_t* factory) {
  if (count != @COUNT@) return UDO_INVALID_ARGUMENT;
  Made* made = (Made*)infra->dspGlobalInfra->hexNNv2Infra.udoMalloc(sizeof(Made));
  made->factory.opType = opType;
  made->sum = @SUM@;
  *factory = (Udo_OpFactory_t)made;
  return UDO_NO_ERROR;
}
Udo_ErrorType_t release(QnnOpPackage_GlobalInfrastructure_t infra, Udo_OpFactory_t factory) {
  infra->dspGlobalInfra->hexNNv2Infra.udoFree(factory);
  return UDO_NO_ERROR;
}
Udo_ErrorType_t execute(QnnOpPackage_GlobalInfrastructure_t infra, Udo_Operation_t operation, bool, const uint32_t,
                        Udo_ExternalNotify_t) {
  OpParams_t* op = (OpParams_t*)operation;
  Udo_TensorParam_t* x = op->InputParams;
  Udo_TensorParam_t* y = op->outputParams;
  uint32_t count = 1;
  for (uint32_t k = 0; k < x->tensorRank; k++) count *= y->currDimensions[k] = x->currDimensions[k];
  y->dataType = UDO_DATATYPE_FLOAT_32;
  infra->dspGlobalInfra->hexNNv2Infra.udoSetOutputTensorSize(op->opInfra, 0, count * 4);
  const float sum = ((Made*)op->opFactory)->sum;
  for (uint32_t i = 0; i < count; i++) ((float*)y->tensorData)[i] = ((float*)x->tensorData)[i] + sum;
  return UDO_NO_ERROR;
}
Udo_ErrorType_t validate(Udo_String_t, uint32_t count, const Udo_Param_t*) {
  return count == @COUNT@ ? UDO_NO_ERROR : UDO_INVALID_ARGUMENT;
}
Udo_ErrorType_t query(Udo_String_t, uint32_t, const Udo_Param_t*, uint32_t* inputs, Udo_QuantizationType_t** inputTypes,
                      Udo_HexNNTensorLayout_t** inputLayouts, uint32_t* outputs, Udo_QuantizationType_t** outputTypes,
                      Udo_HexNNTensorLayout_t** outputLayouts) {
  *inputs = *outputs = 1;
  *inputTypes = *outputTypes = kinds;
  *inputLayouts = *outputLayouts = nullptr;
  return UDO_NO_ERROR;
}
}
UdoDspShared* new_@LOWER@(QnnOpPackage_GlobalInfrastructure_t) {
  static UdoDspShared functions = {opType, @COUNT@, 1, 1, query, validate, create, release, execute};
  return &functions;
}
Udo_ErrorType_t free_@LOWER@(QnnOpPackage_GlobalInfrastructure_t, UdoDspShared*) { return UDO_NO_ERROR; }
