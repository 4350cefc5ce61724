// ScaleClamp for the GPU, in the style of qnn-op-package-generator.
#include "Operation.hpp"
#include "QnnGpuOpPackage.h"
#include "QnnTypes.h"

const std::string ScaleClampOperation::s_operationType = "ScaleClamp";

std::shared_ptr<Operation> ScaleClampOperation::create(const QnnGpuOpPackage_Node_t* node, Qnn_ErrorHandle_t* status) {
  return std::shared_ptr<ScaleClampOperation>(new (std::nothrow) ScaleClampOperation(node, status));
}

ScaleClampOperation::ScaleClampOperation(const QnnGpuOpPackage_Node_t* node, Qnn_ErrorHandle_t* status) : Operation() {
  if (node->configs[0]->v1.numOfInputs != 1u) {
    RETURN(QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT);
  }
  auto kernel = setKernelInfo(node, status);
  if (QNN_SUCCESS != *status) {
    return;
  }
  ADD_KERNEL(kernel);
  RETURN(QNN_SUCCESS);
}

QnnGpu_Kernel_t ScaleClampOperation::setKernelInfo(const QnnGpuOpPackage_Node_t* node, Qnn_ErrorHandle_t* status) {
  QnnGpu_Kernel_t gpuKernel = QNN_GPU_KERNEL_INIT;
  const Qnn_OpConfigV1_t& config = node->configs[0]->v1;
  const Qnn_Tensor_t& x = config.inputTensors[0];
  size_t count = 1;
  for (uint32_t axis = 0; axis < x.v1.rank; axis++) {
    count *= x.v1.dimensions[axis];
  }
  gpuKernel.globalWorkDim = 1u;
  gpuKernel.globalWorkSizes[0] = count;
  gpuKernel.localWorkDim = 1u;
  gpuKernel.localWorkSizes[0] = 64u;  // the last group is smaller

  QnnGpu_KernelArg_t input = QNN_GPU_KERNEL_ARG_INIT;
  input.type = QNN_GPU_KERNEL_ARG_TYPE_OP_INPUT_READ;
  m_kernelArgs.push_back(input);

  uint32_t channels = 0;
  for (uint32_t i = 0; i < config.numOfParams; i++) {
    const Qnn_Param_t& param = config.params[i];
    if (param.paramType == QNN_PARAMTYPE_TENSOR) {
      // Small and constant: part of the text of the kernel.
      channels = param.tensorParam.v1.dimensions[0];
      m_kernelSource = "__constant float gain[] = {";
      for (uint32_t c = 0; c < channels; c++) {
        m_kernelSource += std::to_string(static_cast<const float*>(param.tensorParam.v1.clientBuf.data)[c]) + "f,";
      }
      m_kernelSource += "};\n";
    } else {
      QnnGpu_KernelArg_t limit = QNN_GPU_KERNEL_ARG_INIT;
      limit.type = QNN_GPU_KERNEL_ARG_TYPE_DATA;
      limit.data.type = QNN_GPU_KERNEL_ARG_CL_TYPE_FLOAT;
      limit.data.qnnFloat = param.scalarParam.floatValue;
      m_kernelArgs.push_back(limit);
    }
  }

  QnnGpu_KernelArg_t output = QNN_GPU_KERNEL_ARG_INIT;
  output.type = QNN_GPU_KERNEL_ARG_TYPE_OP_OUTPUT_WRITE;
  m_kernelArgs.push_back(output);
  for (auto& each : m_kernelArgs) {
    m_kernelArgPtrs.push_back(&each);
  }
  m_kernelArgPtrs.push_back(nullptr);
  gpuKernel.args = m_kernelArgPtrs.data();

  m_kernelName = "scale_clamp_kernel";
  m_kernelSource += "__kernel void scale_clamp_kernel(__global const float* x, float limit, __global float* y) {\n"
                    "  int i = get_global_id(0);\n"
                    "  y[i] = fmin(x[i] * gain[i % " + std::to_string(channels) + "], limit);\n"
                    "}\n";
  gpuKernel.name = m_kernelName.c_str();
  gpuKernel.sourceType = QNN_GPU_KERNEL_SOURCE_TYPE_TEXT;
  gpuKernel.kernelSource = m_kernelSource.c_str();
  gpuKernel.sourceLength = m_kernelSource.size();
  gpuKernel.buildOptions = "-cl-std=CL2.0";
  KERNEL_RETURN(QNN_SUCCESS);
}
