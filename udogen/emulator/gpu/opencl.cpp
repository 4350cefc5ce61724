#include "opencl.hpp"

#include <dlfcn.h>

namespace emulator {

const OpenCl* OpenCl::open(const Logger& logger) {
  static OpenCl calls;
  static const std::string missing = []() -> std::string {
    void* const library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return dlerror();
#define UDOGEN_LOAD(name)                                                       \
  calls.name = reinterpret_cast<decltype(calls.name)>(dlsym(library, #name)); \
  if (calls.name == nullptr) return "libOpenCL.so.1 has no " #name;
    UDOGEN_OPENCL_CALLS(UDOGEN_LOAD)
#undef UDOGEN_LOAD
    return "";
  }();
  if (missing.empty()) return &calls;
  logger.error("there is no OpenCL on this machine: %s", missing.c_str());
  return nullptr;
}

const char* nameOf(cl_int code) {
  switch (code) {
    case CL_DEVICE_NOT_AVAILABLE: return "CL_DEVICE_NOT_AVAILABLE";
    case CL_COMPILER_NOT_AVAILABLE: return "CL_COMPILER_NOT_AVAILABLE";
    case CL_MEM_OBJECT_ALLOCATION_FAILURE: return "CL_MEM_OBJECT_ALLOCATION_FAILURE";
    case CL_OUT_OF_RESOURCES: return "CL_OUT_OF_RESOURCES";
    case CL_OUT_OF_HOST_MEMORY: return "CL_OUT_OF_HOST_MEMORY";
    case CL_IMAGE_FORMAT_NOT_SUPPORTED: return "CL_IMAGE_FORMAT_NOT_SUPPORTED";
    case CL_BUILD_PROGRAM_FAILURE: return "CL_BUILD_PROGRAM_FAILURE";
    case CL_INVALID_VALUE: return "CL_INVALID_VALUE";
    case CL_INVALID_MEM_OBJECT: return "CL_INVALID_MEM_OBJECT";
    case CL_INVALID_IMAGE_SIZE: return "CL_INVALID_IMAGE_SIZE";
    case CL_INVALID_BUILD_OPTIONS: return "CL_INVALID_BUILD_OPTIONS";
    case CL_INVALID_KERNEL_NAME: return "CL_INVALID_KERNEL_NAME";
    case CL_INVALID_ARG_INDEX: return "CL_INVALID_ARG_INDEX";
    case CL_INVALID_ARG_VALUE: return "CL_INVALID_ARG_VALUE";
    case CL_INVALID_ARG_SIZE: return "CL_INVALID_ARG_SIZE";
    case CL_INVALID_KERNEL_ARGS: return "CL_INVALID_KERNEL_ARGS";
    case CL_INVALID_WORK_DIMENSION: return "CL_INVALID_WORK_DIMENSION";
    case CL_INVALID_WORK_GROUP_SIZE: return "CL_INVALID_WORK_GROUP_SIZE";
    case CL_INVALID_WORK_ITEM_SIZE: return "CL_INVALID_WORK_ITEM_SIZE";
    case CL_INVALID_BUFFER_SIZE: return "CL_INVALID_BUFFER_SIZE";
    case CL_INVALID_GLOBAL_WORK_SIZE: return "CL_INVALID_GLOBAL_WORK_SIZE";
    default: return "an error of OpenCL";
  }
}

std::string ClDevice::text(cl_device_info what) const {
  char room[256] = {};
  cl.clGetDeviceInfo(id, what, sizeof room - 1, room, nullptr);
  return room;
}

std::shared_ptr<ClDevice> ClDevice::open(const Logger& logger) {
  const OpenCl* const cl = OpenCl::open(logger);
  if (cl == nullptr) return nullptr;
  cl_uint count = 0;
  if (cl->clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS) count = 0;
  std::vector<cl_platform_id> platforms(count);
  if (count != 0) cl->clGetPlatformIDs(count, platforms.data(), nullptr);
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  for (const cl_device_type type : {cl_device_type{CL_DEVICE_TYPE_GPU}, cl_device_type{CL_DEVICE_TYPE_ALL}}) {
    for (const cl_platform_id each : platforms) {
      if (device != nullptr) break;
      platform = each;
      if (cl->clGetDeviceIDs(each, type, 1, &device, nullptr) != CL_SUCCESS) device = nullptr;
    }
  }
  if (device == nullptr) {
    logger.error("OpenCL has %u platforms here, but no device", count);
    return nullptr;
  }
  cl_int code = CL_SUCCESS;
  OwnedContext context(*cl, cl->clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code));
  OwnedQueue queue;
  if (context) queue = OwnedQueue(*cl, cl->clCreateCommandQueue(context.get(), device, 0, &code));
  if (!queue) {
    logger.error("OpenCL cannot create a queue: %s (%d)", nameOf(code), code);
    return nullptr;
  }
  auto made = std::make_shared<ClDevice>(
      ClDevice{*cl, device, {}, std::move(context), std::move(queue)});
  char name[256] = {};
  cl->clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, nullptr);
  made->title = std::string(name) + " (" + made->text(CL_DRIVER_VERSION) + ")";
  return made;
}

}  // namespace emulator
