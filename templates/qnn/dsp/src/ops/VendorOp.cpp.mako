// The kernel of ${op.name}, in the style of qnn-op-package-generator.  Auto-generated once by udogen: it is yours.
#include "DspOps.hpp"

namespace {

char opType[] = ${op.literal};
Udo_QuantizationType_t inputs[] = {
% for kind in op.input_quantization:
    ${kind},
% endfor
};
Udo_QuantizationType_t outputs[] = {
% for kind in op.output_quantization:
    ${kind},
% endfor
};

Udo_ErrorType_t create(QnnOpPackage_GlobalInfrastructure_t infrastructure, Udo_CoreType_t, void*, Udo_String_t,
                       uint32_t count, Udo_Param_t* params, Udo_OpFactory_t* factory) {
  void* memory = infrastructure->dspGlobalInfra->hexNNv2Infra.udoMalloc(sizeof(${op.lower}OpFactory_t));
  if (memory == nullptr) return UDO_INVALID_ARGUMENT;
  auto* made = static_cast<${op.lower}OpFactory_t*>(memory);
  // The parameters exist during this call only: what execute needs of them must be copied.
  *made = {opType, count, nullptr};
  *factory = reinterpret_cast<Udo_OpFactory_t>(made);
  return UDO_NO_ERROR;
}

Udo_ErrorType_t release(QnnOpPackage_GlobalInfrastructure_t infrastructure, Udo_OpFactory_t factory) {
  infrastructure->dspGlobalInfra->hexNNv2Infra.udoFree(factory);
  return UDO_NO_ERROR;
}

Udo_ErrorType_t execute(QnnOpPackage_GlobalInfrastructure_t, Udo_Operation_t operation, bool, const uint32_t,
                        Udo_ExternalNotify_t) {
  // add code here: reinterpret_cast<OpParams_t*>(operation) has InputParams and outputParams
  return UDO_UNSUPPORTED_FEATURE;
}

Udo_ErrorType_t validate(Udo_String_t, uint32_t, const Udo_Param_t*) { return UDO_NO_ERROR; }

Udo_ErrorType_t query(Udo_String_t, uint32_t, const Udo_Param_t*, uint32_t* inputCount, Udo_QuantizationType_t** inputTypes,
                      Udo_HexNNTensorLayout_t** inputLayouts, uint32_t* outputCount, Udo_QuantizationType_t** outputTypes,
                      Udo_HexNNTensorLayout_t** outputLayouts) {
  *inputCount = sizeof inputs / sizeof *inputs;
  *inputTypes = inputs;
  *inputLayouts = nullptr;
  *outputCount = sizeof outputs / sizeof *outputs;
  *outputTypes = outputs;
  *outputLayouts = nullptr;
  return UDO_NO_ERROR;
}

}  // namespace

UdoDspShared* new_${op.lower}(QnnOpPackage_GlobalInfrastructure_t) {
  static UdoDspShared functions = {opType, ${op.param_count}, sizeof inputs / sizeof *inputs, sizeof outputs / sizeof *outputs,
                                   query,  validate, create, release, execute};
  return &functions;
}

Udo_ErrorType_t free_${op.lower}(QnnOpPackage_GlobalInfrastructure_t, UdoDspShared*) { return UDO_NO_ERROR; }
