// Auto-generated part of every op package with kernels in Qualcomm's style; regenerating rewrites this file.
//
// The interface of kernels in the style of qnn-op-package-generator: five functions of an op, registered with REGISTER_OP.
#pragma once

// Kernels in this style expect these headers.
#include <string.h>

#include <algorithm>
#include <iostream>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "CpuBackendUtils.hpp"
#include "CustomBEMacros.hpp"

namespace qnn {
namespace custom {
namespace utils {

/// One node of a graph: populateFromNode adds its tensors and parameters, the other functions read them.
class CustomOp {
 public:
  const char* m_name = nullptr;
  const char* m_typeName = nullptr;
  std::uint32_t m_numKernels = 0;

  CustomOp() = default;
  CustomOp(const char* name, const char* typeName) : m_name(name), m_typeName(typeName) {}
  virtual ~CustomOp() = default;

  virtual Qnn_ErrorHandle_t addInput(CustomOpTensorPtr_t tensor) { return add(m_Inputs, tensor); }
  virtual Qnn_ErrorHandle_t addOutput(CustomOpTensorPtr_t tensor) { return add(m_Outputs, tensor); }
  virtual Qnn_ErrorHandle_t addParam(const std::string& name, CustomOpParamPtr_t param) {
    m_Params[name] = param;
    return QNN_SUCCESS;
  }

  CustomOpTensorPtr_t getInput(std::size_t index = 0) const { return m_Inputs[index]; }
  CustomOpTensorPtr_t getOutput(std::size_t index = 0) const { return m_Outputs[index]; }
  CustomOpTensorPtr_t* getOutputsFlat() { return m_Outputs.data(); }
  CustomOpParamPtr_t getParam(const std::string& name) { return m_Params[name]; }  // null if it was not added
  std::uint32_t numInput() const { return static_cast<std::uint32_t>(m_Inputs.size()); }
  std::uint32_t numOutput() const { return static_cast<std::uint32_t>(m_Outputs.size()); }

 protected:
  std::vector<CustomOpTensorPtr_t> m_Inputs;
  std::vector<CustomOpTensorPtr_t> m_Outputs;
  std::map<std::string, CustomOpParamPtr_t> m_Params;

 private:
  static Qnn_ErrorHandle_t add(std::vector<CustomOpTensorPtr_t>& all, CustomOpTensorPtr_t tensor) {
    all.push_back(tensor);
    return QNN_SUCCESS;
  }
};

}  // namespace utils

/// The functions of one op; finalize, free and validateOpConfig may be null.
struct CustomOpRegistration_t {
  Qnn_ErrorHandle_t (*execute)(utils::CustomOp* operation);
  Qnn_ErrorHandle_t (*finalize)(const utils::CustomOp* operation);
  Qnn_ErrorHandle_t (*free)(utils::CustomOp& operation);
  QnnOpPackage_ValidateOpConfigFn_t validateOpConfig;
  Qnn_ErrorHandle_t (*initialize)(QnnOpPackage_Node_t node, QnnOpPackage_GraphInfrastructure_t infrastructure,
                                  utils::CustomOp* operation);
};
using CustomOpRegistrationFunction_t = CustomOpRegistration_t* (*)();

/// One REGISTER_OP; those of a library form a list.
class OpRegistrationReceiver {
 public:
  OpRegistrationReceiver(const char* op, CustomOpRegistrationFunction_t function);
  OpRegistrationReceiver(const OpRegistrationReceiver&) = delete;
  OpRegistrationReceiver& operator=(const OpRegistrationReceiver&) = delete;

  /// The functions of an op; null if no source registers them.
  static const CustomOpRegistration_t* find(const char* op);

 private:
  const char* const op_;
  const CustomOpRegistrationFunction_t function_;
  const OpRegistrationReceiver* const next_;
};

}  // namespace custom
}  // namespace qnn

#define REGISTER_OP(op, function) qnn::custom::OpRegistrationReceiver op##_receiver(#op, function);
