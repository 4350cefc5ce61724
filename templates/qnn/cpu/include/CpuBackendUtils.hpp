// Auto-generated part of every op package with kernels in Qualcomm's style; regenerating rewrites this file.
//
// A node of libQnnCpu with the names by which kernels in this style read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "CPU/QnnCpuOpPackage.h"
#include "QnnOpPackage.h"
#include "QnnTypes.h"

#if defined(__GNUC__)
// Kernels in this style are written for a compiler that does not report these warnings.
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wignored-qualifiers"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#endif

struct CustomOpTensor : QnnCpuOpPackage_Tensor_t {};
struct CustomOpParam : QnnCpuOpPackage_Param_t {};
using CustomOpTensorPtr_t = CustomOpTensor*;
using CustomOpParamPtr_t = CustomOpParam*;

namespace qnn {
namespace custom {
namespace utils {

inline const QnnCpuOpPackage_Node_t& cpuNode(QnnOpPackage_Node_t node) {
  return *reinterpret_cast<const QnnCpuOpPackage_Node_t*>(node);
}

inline std::uint32_t numInputs(QnnOpPackage_Node_t node) { return cpuNode(node).numOfInputs; }
inline std::uint32_t numOutputs(QnnOpPackage_Node_t node) { return cpuNode(node).numOfOutputs; }

inline CustomOpTensorPtr_t getInput(QnnOpPackage_Node_t node, std::size_t index) {
  return static_cast<CustomOpTensorPtr_t>(cpuNode(node).inputs[index]);
}
inline CustomOpTensorPtr_t getOutput(QnnOpPackage_Node_t node, std::size_t index) {
  return static_cast<CustomOpTensorPtr_t>(cpuNode(node).outputs[index]);
}

// All tensors or parameters of the node, as an array of pointers.
inline const CustomOpTensorPtr_t* getInput(QnnOpPackage_Node_t node) {
  return reinterpret_cast<const CustomOpTensorPtr_t*>(cpuNode(node).inputs);
}
inline const CustomOpTensorPtr_t* getOutput(QnnOpPackage_Node_t node) {
  return reinterpret_cast<const CustomOpTensorPtr_t*>(cpuNode(node).outputs);
}
inline const CustomOpParamPtr_t* getParam(QnnOpPackage_Node_t node) {
  for (std::uint32_t i = 0; i < cpuNode(node).numOfParams; ++i) {
    if (cpuNode(node).params[i] == nullptr) throw "parameters are read by position, and one is missing";
  }
  return reinterpret_cast<const CustomOpParamPtr_t*>(cpuNode(node).params);
}

/// Whether the node has the parameter, and the parameter.
inline std::pair<bool, CustomOpParamPtr_t> getParam(QnnOpPackage_Node_t node, const std::string& name) {
  const QnnCpuOpPackage_Node_t& all = cpuNode(node);
  for (std::uint32_t i = 0; i < all.numOfParams; ++i) {
    if (all.params[i] != nullptr && all.params[i]->name == name) return {true, static_cast<CustomOpParamPtr_t>(all.params[i])};
  }
  return {false, nullptr};
}

inline std::uint32_t numDimensions(CustomOpTensorPtr_t tensor) { return tensor->rank; }
inline const std::uint32_t* getTensorShape(CustomOpTensorPtr_t tensor) { return tensor->currentDimensions; }
inline void* getTensorData(CustomOpTensorPtr_t tensor) { return tensor->data; }

template <class T>
const T* getTensorData(CustomOpTensorPtr_t tensor) {
  return static_cast<const T*>(tensor->data);
}

template <class T>
T& getTensorDataRef(CustomOpTensorPtr_t tensor) {
  return *static_cast<T*>(tensor->data);
}

/// The number of elements of a tensor.
inline std::uint32_t numTensorSize(CustomOpTensorPtr_t tensor) {
  std::uint32_t count = 1;
  for (std::uint32_t axis = 0; axis < tensor->rank; ++axis) count *= tensor->currentDimensions[axis];
  return count;
}

namespace backend_utils {

inline double getScalarParam(CustomOpParamPtr_t param) { return param->scalarParam; }
inline CustomOpTensorPtr_t getTensorParam(CustomOpParamPtr_t param) {
  return static_cast<CustomOpTensorPtr_t>(param->tensorParam);
}

}  // namespace backend_utils
}  // namespace utils
}  // namespace custom
}  // namespace qnn
