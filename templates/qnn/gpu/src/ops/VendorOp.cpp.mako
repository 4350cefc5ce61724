// The kernel of ${op.name}, in the style of qnn-op-package-generator.  Auto-generated once by udogen: it is yours.
#include "Operation.hpp"

const std::string ${op.name}Operation::s_operationType = ${op.literal};

std::shared_ptr<Operation> ${op.name}Operation::create(const QnnGpuOpPackage_Node_t* node, Qnn_ErrorHandle_t* status) {
  return std::shared_ptr<${op.name}Operation>(new (std::nothrow) ${op.name}Operation(node, status));
}

${op.name}Operation::${op.name}Operation(const QnnGpuOpPackage_Node_t* node, Qnn_ErrorHandle_t* status) {
  const QnnGpu_Kernel_t kernel = setKernelInfo(node, status);
  if (*status != QNN_SUCCESS) return;
  ADD_KERNEL(kernel)
  RETURN(QNN_SUCCESS)
}

QnnGpu_Kernel_t ${op.name}Operation::setKernelInfo(const QnnGpuOpPackage_Node_t* node, Qnn_ErrorHandle_t* status) {
  QnnGpu_Kernel_t gpuKernel = QNN_GPU_KERNEL_INIT;
  // add code here: work sizes, m_kernelArgs, m_kernelName and m_kernelSource
  KERNEL_RETURN(QNN_OP_PACKAGE_ERROR_UNSUPPORTED_FEATURE)
}
