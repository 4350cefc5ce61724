#include "Operation.hpp"
const std::string @OP@Operation::s_operationType = "@OP@";
std::shared_ptr<Operation> @OP@Operation::create(const QnnGpuOpPackage_Node_t* node, Qnn_ErrorHandle_t* status) {
  return std::shared_ptr<@OP@Operation>(new (std::nothrow) @OP@Operation(node, status));
}
@OP@Operation::@OP@Operation(const QnnGpuOpPackage_Node_t* node, Qnn_ErrorHandle_t* status) {
  const QnnGpu_Kernel_t kernel = setKernelInfo(node, status);
  ADD_KERNEL(kernel)
  RETURN(QNN_SUCCESS)
}
QnnGpu_Kernel_t @OP@Operation::setKernelInfo(const QnnGpuOpPackage_Node_t* node, Qnn_ErrorHandle_t* status) {
  QnnGpu_Kernel_t gpuKernel = QNN_GPU_KERNEL_INIT;
  const Qnn_Param_t* params = node->configs[0]->v1.params;
  if (node->configs[0]->v1.numOfParams != @COUNT@) KERNEL_RETURN(QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT)
  gpuKernel.globalWorkDim = 1u;
  gpuKernel.globalWorkSizes[0] = node->configs[0]->v1.inputTensors[0].v1.dimensions[0];
  QnnGpu_KernelArg_t arg = QNN_GPU_KERNEL_ARG_INIT;
  arg.type = QNN_GPU_KERNEL_ARG_TYPE_OP_INPUT_READ;
  m_kernelArgs.push_back(arg);
  arg.type = QNN_GPU_KERNEL_ARG_TYPE_OP_OUTPUT_WRITE;
  m_kernelArgs.push_back(arg);
  arg.type = QNN_GPU_KERNEL_ARG_TYPE_DATA;
  arg.data.type = QNN_GPU_KERNEL_ARG_CL_TYPE_FLOAT;
  arg.data.qnnFloat = @SUM@;
  m_kernelArgs.push_back(arg);
  for (auto& each : m_kernelArgs) m_kernelArgPtrs.push_back(&each);
  m_kernelArgPtrs.push_back(nullptr);
  gpuKernel.args = m_kernelArgPtrs.data();
  m_kernelName = "add";
  m_kernelSource = "__kernel void add(__global const float* x, __global float* y, float sum) {"
                   "  y[get_global_id(0)] = x[get_global_id(0)] + sum; }";
  gpuKernel.name = m_kernelName.c_str();
  gpuKernel.sourceType = QNN_GPU_KERNEL_SOURCE_TYPE_TEXT;
  gpuKernel.kernelSource = m_kernelSource.c_str();
  gpuKernel.sourceLength = m_kernelSource.size();
  KERNEL_RETURN(QNN_SUCCESS)
}
