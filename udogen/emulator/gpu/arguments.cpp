#include "arguments.hpp"

namespace emulator {
namespace {

std::string text(const ClDevice& device, cl_kernel kernel, cl_uint at, cl_kernel_arg_info what) {
  char room[128] = {};
  const cl_int code = device.cl.clGetKernelArgInfo(kernel, at, what, sizeof room - 1, room, nullptr);
  return code == CL_SUCCESS ? room : "";
}

}  // namespace

std::size_t sizeOf(QnnGpu_DataKernelArgType_t type) {
  constexpr std::size_t sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
  return type < sizeof sizes / sizeof *sizes ? sizes[type] : 0;
}

const char* nameOf(QnnGpu_DataKernelArgType_t type) {
  constexpr const char* names[] = {"char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "float", "double"};
  return type < sizeof names / sizeof *names ? names[type] : "of an unknown type";
}

std::string faultOf(const ClDevice& device, cl_kernel kernel, cl_uint at, const QnnGpu_KernelArg_t& arg, bool isImage) {
  const std::string type = text(device, kernel, at, CL_KERNEL_ARG_TYPE_NAME);
  const std::string name = text(device, kernel, at, CL_KERNEL_ARG_NAME);
  cl_kernel_arg_address_qualifier where = CL_KERNEL_ARG_ADDRESS_PRIVATE;
  const cl_int code = device.cl.clGetKernelArgInfo(kernel, at, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof where, &where,
                                                   nullptr);
  if (code != CL_SUCCESS || type.empty()) return "";  // the platform does not report it
  const bool imageWanted = type.rfind("image", 0) == 0;
  const std::string head = "argument " + std::to_string(at) + " `" + name + "` is " + type + " in OpenCL; the op passes ";
  switch (arg.type) {
    case QNN_GPU_KERNEL_ARG_TYPE_DATA:
      if (where != CL_KERNEL_ARG_ADDRESS_PRIVATE || imageWanted) return head + "a number";
      return type == nameOf(arg.data.type) ? "" : head + nameOf(arg.data.type);
    case QNN_GPU_KERNEL_ARG_TYPE_LOCAL: return where == CL_KERNEL_ARG_ADDRESS_LOCAL ? "" : head + "local memory";
    case QNN_GPU_KERNEL_ARG_TYPE_NULL_PTR:
      return where == CL_KERNEL_ARG_ADDRESS_PRIVATE && !imageWanted ? head + "a null pointer" : "";
    default:
      if (isImage != imageWanted) return head + (isImage ? "an image" : "a buffer");
      if (!isImage && where != CL_KERNEL_ARG_ADDRESS_GLOBAL && where != CL_KERNEL_ARG_ADDRESS_CONSTANT) {
        return head + "a buffer";
      }
      return "";
  }
}

}  // namespace emulator
