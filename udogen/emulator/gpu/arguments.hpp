// The arguments that a kernel takes, compared with those that its op passes.
#pragma once

#include "GPU/QnnGpuOpPackage.h"
#include "opencl.hpp"

namespace emulator {

/// Bytes of a number, and its name in OpenCL.
std::size_t sizeOf(QnnGpu_DataKernelArgType_t type);
const char* nameOf(QnnGpu_DataKernelArgType_t type);

/// The error of the argument at this place, in words; empty where nothing is.
std::string faultOf(const ClDevice& device, cl_kernel kernel, cl_uint at, const QnnGpu_KernelArg_t& arg, bool isImage);

}  // namespace emulator
