// ScaleClamp for the CPU, in the style of qnn-op-package-generator.
#include "CpuBackendUtils.hpp"
#include "CustomOpPackage.hpp"

using namespace qnn::custom;
using namespace qnn::custom::utils;

namespace scaleclamp {

Qnn_ErrorHandle_t execute(CustomOp* operation) {
  auto x = operation->getInput(0);
  auto y = operation->getOutput(0);
  const float limit = (float)backend_utils::getScalarParam(operation->getParam("limit"));
  const auto gain = operation->getParam("gain")->tensorParam;
  const float* factors = (const float*)gain->data;
  const uint32_t channels = gain->currentDimensions[0];

  const float* in = (const float*)x->data;
  float* out = (float*)y->data;
  for (uint32_t i = 0; i < numTensorSize(x); i++) {
    out[i] = std::min(in[i] * factors[i % channels], limit);
  }
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t finalize(const CustomOp* operation) {
  QNN_CUSTOM_BE_ENSURE_EQ(operation->numInput(), 1, QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE)
  QNN_CUSTOM_BE_ENSURE_EQ(operation->numOutput(), 1, QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE);
  QNN_CUSTOM_BE_ENSURE(numDimensions(operation->getInput(0)) >= 1, QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE)
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t free(CustomOp& operation) { return QNN_SUCCESS; }

Qnn_ErrorHandle_t populateFromNode(const QnnOpPackage_Node_t node, QnnOpPackage_GraphInfrastructure_t infrastructure,
                                   CustomOp* operation) {
  for (uint32_t i = 0; i < numInputs(node); i++) {
    operation->addInput(getInput(node, i));
  }
  for (uint32_t i = 0; i < numOutputs(node); i++) {
    operation->addOutput(getOutput(node, i));
  }
  for (const char* name : {"limit", "gain"}) {
    auto param = getParam(node, name);
    QNN_CUSTOM_BE_ENSURE(param.first, QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT)
    QNN_CUSTOM_BE_ENSURE_STATUS(operation->addParam(name, param.second))
  }
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t validateOpConfig(Qnn_OpConfig_t config) {
  QNN_CUSTOM_BE_ENSURE_EQ(strcmp(config.v1.typeName, "ScaleClamp"), 0, QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT)
  for (uint32_t i = 0; i < config.v1.numOfParams; i++) {
    const Qnn_Param_t& param = config.v1.params[i];
    const bool limit = strcmp(param.name, "limit") == 0;
    QNN_CUSTOM_BE_ENSURE(!limit || param.scalarParam.floatValue >= 0, QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE)
  }
  return QNN_SUCCESS;
}

}  // namespace scaleclamp

CustomOpRegistration_t* register_ScaleClampCustomOp() {
  using namespace scaleclamp;
  static CustomOpRegistration_t functions = {execute, finalize, free, validateOpConfig, populateFromNode};
  return &functions;
}

REGISTER_OP(ScaleClamp, register_ScaleClampCustomOp);
