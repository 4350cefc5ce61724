#include "CpuBackendUtils.hpp"
#include "CustomOpPackage.hpp"
using namespace qnn::custom;
using namespace qnn::custom::utils;
namespace ns_@OP@ {
double sums[4096];
int used = 0;
Qnn_ErrorHandle_t execute(CustomOp* op) {
  const float* x = (const float*)op->getInput(0)->data;
  float* y = (float*)op->getOutput(0)->data;
  for (uint32_t i = 0; i < numTensorSize(op->getInput(0)); i++) y[i] = x[i] + sums[op->m_numKernels];
  return QNN_SUCCESS;
}
Qnn_ErrorHandle_t populateFromNode(const QnnOpPackage_Node_t node, QnnOpPackage_GraphInfrastructure_t, CustomOp* op) {
  op->addInput(getInput(node, 0));
  op->addOutput(getOutput(node, 0));
  for (const char* name : {@NAMES@}) {
    QNN_CUSTOM_BE_ENSURE(getParam(node, name).first, QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT)
  }
  op->m_numKernels = used++;
  sums[op->m_numKernels] = @SUM@;
  return QNN_SUCCESS;
}
CustomOpRegistration_t* registration() {
  static CustomOpRegistration_t functions = {execute, nullptr, nullptr, nullptr, populateFromNode};
  return &functions;
}
}
REGISTER_OP(@OP@, ns_@OP@::registration)
