// A package that udogen did not generate: it accepts every node, and shows its arguments.
#include <cstring>
#include "CPU/QnnCpuOpPackage.h"
namespace {
const char* ops[] = {"Copy"};
QnnOpPackage_Info_t info = {};
Qnn_ErrorHandle_t start(QnnOpPackage_GlobalInfrastructure_t given) { return given == nullptr ? 0 : 3100; }
Qnn_ErrorHandle_t stop() { return 0; }
Qnn_ErrorHandle_t getInfo(const QnnOpPackage_Info_t** out) {
  info.packageName = "Foreign"; info.operationNames = ops; info.numOperations = 1; *out = &info; return 0;
}
Qnn_ErrorHandle_t validate(Qnn_OpConfig_t) { return 0; }
Qnn_ErrorHandle_t work(void* data) {
  auto& node = *static_cast<QnnCpuOpPackage_Node_t*>(data);
  float answer[6] = {static_cast<float>(node.numOfParams), static_cast<float>(node.inputs[0]->rank), 0, 0, 0, 0};
  for (unsigned i = 0; i < node.numOfParams; ++i) {
    const QnnCpuOpPackage_Param_t& param = *node.params[i];
    if (std::strcmp(param.name, "fail") == 0) return 1100;
    if (std::strcmp(param.name, "beyond") == 0) static_cast<char*>(node.outputs[0]->data)[24] = 1;
    if (param.type == QNN_CPU_PARAMTYPE_SCALAR) answer[2] = static_cast<float>(param.scalarParam);
    if (param.type == QNN_CPU_PARAMTYPE_STRING) answer[3] = static_cast<float>(std::strlen(param.string));
    if (param.type == QNN_CPU_PARAMTYPE_TENSOR) answer[4] = static_cast<float*>(param.tensorParam->data)[1];
  }
  answer[5] = node.inputs[0]->maxDimensions == node.inputs[0]->currentDimensions ? 1 : 0;
  std::memcpy(node.outputs[0]->data, answer, sizeof answer);
  return 0;
}
Qnn_ErrorHandle_t create(QnnOpPackage_GraphInfrastructure_t graph, QnnOpPackage_Node_t node,
                         QnnOpPackage_OpImpl_t* made) {
  static QnnCpuOpPackage_OpImpl_t impl;
  if (graph != nullptr) return 3100;
  impl = {work, node};
  *made = &impl;
  return 0;
}
Qnn_ErrorHandle_t release(QnnOpPackage_OpImpl_t) { return 0; }
Qnn_ErrorHandle_t logStart(QnnLog_Callback_t, QnnLog_Level_t) { return 1100; }
Qnn_ErrorHandle_t logLevel(QnnLog_Level_t) { return 0; }
}
extern "C" Qnn_ErrorHandle_t ForeignInterfaceProvider(QnnOpPackage_Interface_t* out) {
  out->interfaceVersion = {1, 4, 0};
  out->v1_4 = {start, stop, getInfo, validate, create, release, logStart, logLevel, stop};
  return 0;
}
extern "C" Qnn_ErrorHandle_t SecondInterfaceProvider(QnnOpPackage_Interface_t* out) {
  out->interfaceVersion = {2, 0, 0};
  return 0;
}
extern "C" Qnn_ErrorHandle_t HollowInterfaceProvider(QnnOpPackage_Interface_t* out) {
  ForeignInterfaceProvider(out);
  out->v1_4.freeOpImpl = nullptr;
  return 0;
}
extern "C" Qnn_ErrorHandle_t FailingInterfaceProvider(QnnOpPackage_Interface_t* out) {
  ForeignInterfaceProvider(out);
  out->v1_4.init = [](QnnOpPackage_GlobalInfrastructure_t) -> Qnn_ErrorHandle_t { return 1100; };
  return 0;
}
