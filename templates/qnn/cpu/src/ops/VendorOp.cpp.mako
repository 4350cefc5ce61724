// The kernel of ${op.name}, in the style of qnn-op-package-generator.  Auto-generated once by udogen: it is yours.
#include "CpuBackendUtils.hpp"
#include "CustomOpPackage.hpp"

using namespace qnn::custom;
using namespace qnn::custom::utils;

namespace ${op.package}_${op.name} {

// Called at every execution; must not allocate from the heap.
Qnn_ErrorHandle_t execute(CustomOp* operation) {
  // add code here: operation->getInput(0)->data, ->currentDimensions, ->rank; operation->getParam("…")->scalarParam
  return QNN_OP_PACKAGE_ERROR_UNSUPPORTED_FEATURE;
}

// Called once, when the graph is finalized.
Qnn_ErrorHandle_t finalize(const CustomOp* operation) { return QNN_SUCCESS; }

Qnn_ErrorHandle_t free(CustomOp& operation) { return QNN_SUCCESS; }

Qnn_ErrorHandle_t populateFromNode(const QnnOpPackage_Node_t node, QnnOpPackage_GraphInfrastructure_t infrastructure,
                                   CustomOp* operation) {
  for (uint32_t i = 0; i < numInputs(node); ++i) operation->addInput(getInput(node, i));
  for (uint32_t i = 0; i < numOutputs(node); ++i) operation->addOutput(getOutput(node, i));
% for name in op.param_literals:
  if (getParam(node, ${name}).first) operation->addParam(${name}, getParam(node, ${name}).second);
% endfor
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t validateOpConfig(Qnn_OpConfig_t config) { return QNN_SUCCESS; }

CustomOpRegistration_t* registration() {
  static CustomOpRegistration_t functions = {execute, finalize, free, validateOpConfig, populateFromNode};
  return &functions;
}

}  // namespace ${op.package}_${op.name}

REGISTER_OP(${op.name}, ${op.package}_${op.name}::registration)
