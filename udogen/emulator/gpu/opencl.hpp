// OpenCL, opened when it is first needed: the emulator builds without a loader, and reports an error when it runs.
#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "log.hpp"

namespace emulator {

/// The functions that we call.
struct OpenCl {
#define UDOGEN_OPENCL_CALLS(CALL)                                                                                     \
  CALL(clGetPlatformIDs) CALL(clGetPlatformInfo) CALL(clGetDeviceIDs) CALL(clGetDeviceInfo) CALL(clCreateContext)      \
  CALL(clReleaseContext) CALL(clCreateCommandQueue) CALL(clReleaseCommandQueue) CALL(clCreateBuffer) CALL(clCreateImage) \
  CALL(clCreateSubBuffer) CALL(clReleaseMemObject) CALL(clCreateProgramWithSource) CALL(clBuildProgram) CALL(clGetProgramBuildInfo)            \
  CALL(clReleaseProgram) CALL(clCreateKernel) CALL(clReleaseKernel) CALL(clGetKernelInfo) CALL(clGetKernelArgInfo)     \
  CALL(clSetKernelArg) CALL(clEnqueueNDRangeKernel) CALL(clEnqueueReadBuffer) CALL(clEnqueueWriteBuffer)               \
  CALL(clEnqueueReadImage) CALL(clFinish)
#define UDOGEN_DECLARE(name) decltype(&::name) name = nullptr;
  UDOGEN_OPENCL_CALLS(UDOGEN_DECLARE)
#undef UDOGEN_DECLARE

  /// The loader's; null, and the reason in the log, where there is none.
  static const OpenCl* open(const Logger& logger);
};

/// The name of an error of OpenCL.
const char* nameOf(cl_int code);

/// What a context of OpenCL makes, released by the function that its kind has.
template <class T, cl_int (*OpenCl::*Release)(T)>
class Owned {
 public:
  Owned() = default;
  Owned(const OpenCl& cl, T raw) : cl_(&cl), raw_(raw) {}
  Owned(Owned&& other) noexcept : cl_(other.cl_), raw_(other.raw_) { other.raw_ = nullptr; }
  Owned& operator=(Owned&& other) noexcept {
    std::swap(cl_, other.cl_);
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~Owned() {
    if (raw_ != nullptr) (cl_->*Release)(raw_);
  }
  T get() const { return raw_; }
  explicit operator bool() const { return raw_ != nullptr; }

 private:
  const OpenCl* cl_ = nullptr;
  T raw_ = nullptr;
};

using OwnedContext = Owned<cl_context, &OpenCl::clReleaseContext>;
using OwnedQueue = Owned<cl_command_queue, &OpenCl::clReleaseCommandQueue>;
using OwnedMemory = Owned<cl_mem, &OpenCl::clReleaseMemObject>;
using OwnedProgram = Owned<cl_program, &OpenCl::clReleaseProgram>;
using OwnedKernel = Owned<cl_kernel, &OpenCl::clReleaseKernel>;

/// A device, with a context and a queue of its own.
struct ClDevice {
  const OpenCl& cl;
  cl_device_id id;
  std::string title;
  OwnedContext context;
  OwnedQueue queue;

  /// The first GPU, else the first device of any kind; null, and the reason in the log, where there is none.
  static std::shared_ptr<ClDevice> open(const Logger& logger);

  template <class T>
  T info(cl_device_info what, T otherwise = T{}) const {
    T value = otherwise;
    return cl.clGetDeviceInfo(id, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : otherwise;
  }
  std::string text(cl_device_info what) const;
};

}  // namespace emulator
