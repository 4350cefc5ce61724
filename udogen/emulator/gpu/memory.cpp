#include "memory.hpp"

#include <array>

namespace emulator {
std::unique_ptr<Memory> Memory::make(ClDevice& device, QnnGpu_MemoryObjectType_t type, Qnn_DataType_t dataType,
                                     const std::uint32_t* dims, std::uint32_t rank, std::string owner,
                                     const Logger& logger) {
  const bool image = type == QNN_GPU_MEM_OBJ_TYPE_IMAGE2D;
  if (!image && type != QNN_GPU_MEM_OBJ_TYPE_BUFFER) {
    logger.error("%s: memory of the kind %d is not emulated, buffers and 2D images are", owner.c_str(),
                 static_cast<int>(type));
    return nullptr;
  }
  if (dims == nullptr || rank != (image ? 2u : 1u)) {
    logger.error("%s: a buffer has one dimension and an image has two", owner.c_str());
    return nullptr;
  }
  auto made = std::make_unique<Memory>();
  made->owner_ = std::move(owner);
  made->dims_.assign(dims, dims + rank);
  made->offsets_.assign(rank, 0);
  std::size_t elements = image ? 4 : 1;  // of an image: in one pixel
  for (const std::uint32_t each : made->dims_) elements *= each;
  made->bytes_ = (elements * bitsOf(dataType) + 7) / 8;
  made->object_.type = type;
  made->object_.dataType = dataType;
  made->object_.dimensions = made->dims_.data();
  made->object_.offsets = made->offsets_.data();
  made->object_.numDimensions = rank;
  made->object_.layout = image ? QNN_GPU_MEM_LAYOUT_HWC : QNN_GPU_MEM_LAYOUT_UNDEFINED;
  made->object_.name = made->owner_.c_str();
  const OpenCl& cl = device.cl;
  cl_int code = CL_SUCCESS;
  if (image) {
    if (dataType != QNN_DATATYPE_FLOAT_16 && dataType != QNN_DATATYPE_FLOAT_32) {
      // On Adreno too: "Tensor memory error" (10012), when the graph is finalized.
      logger.error("%s: no image has elements of the type 0x%04x; claim a buffer", made->owner_.c_str(),
                   static_cast<unsigned>(dataType));
      return nullptr;
    }
    const cl_image_format format = {
        CL_RGBA, static_cast<cl_channel_type>(dataType == QNN_DATATYPE_FLOAT_16 ? CL_HALF_FLOAT : CL_FLOAT)};
    cl_image_desc described = {};
    described.image_type = CL_MEM_OBJECT_IMAGE2D;
    described.image_height = made->dims_[0];
    described.image_width = made->dims_[1];
    made->memory_ = OwnedMemory(
        cl, cl.clCreateImage(device.context.get(), CL_MEM_READ_WRITE, &format, &described, nullptr, &code));
  } else {
    // A part of a buffer must be aligned for the device.
    const std::size_t alignment = device.info<cl_uint>(CL_DEVICE_MEM_BASE_ADDR_ALIGN, 1024) / 8;
    made->before_ = (guardBytes + alignment - 1) / alignment * alignment;
    made->whole_ = OwnedMemory(cl, cl.clCreateBuffer(device.context.get(), CL_MEM_READ_WRITE,
                                                     made->before_ + made->bytes_ + guardBytes, nullptr, &code));
    const cl_buffer_region part = {made->before_, made->bytes_};
    if (made->whole_) {
      made->memory_ = OwnedMemory(
          cl, cl.clCreateSubBuffer(made->whole_.get(), CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &part, &code));
    }
  }
  if (code == CL_SUCCESS) return made;
  logger.error("%s: OpenCL gives no memory of %zu bytes: %s (%d)", made->owner_.c_str(), made->bytes_, nameOf(code),
               code);
  return nullptr;
}

cl_int Memory::write(ClDevice& device, const void* from) const {
  return device.cl.clEnqueueWriteBuffer(device.queue.get(), raw(), CL_FALSE, 0, bytes_, from, 0, nullptr, nullptr);
}

cl_int Memory::read(ClDevice& device, void* into) const {
  if (isImage()) {
    const std::size_t origin[3] = {0, 0, 0}, region[3] = {dims_[1], dims_[0], 1};
    return device.cl.clEnqueueReadImage(device.queue.get(), raw(), CL_FALSE, origin, region, 0, 0, into, 0, nullptr,
                                        nullptr);
  }
  return device.cl.clEnqueueReadBuffer(device.queue.get(), raw(), CL_FALSE, 0, bytes_, into, 0, nullptr, nullptr);
}

cl_int Memory::fillGuards(ClDevice& device, GuardKey key, bool later) {
  if (isImage()) return CL_SUCCESS;
  key_ = key;
  later_ = later;
  std::array<unsigned char, guardBytes> before{}, behind{};
  fillGuard(before.data(), guardFront, key_, later_);
  fillGuard(behind.data(), 0, key_, later_);
  const auto write = [&](std::size_t at, const auto& bytes) {
    return device.cl.clEnqueueWriteBuffer(device.queue.get(), whole_.get(), CL_TRUE, at, guardBytes, bytes.data(), 0,
                                          nullptr, nullptr);
  };
  const cl_int code = write(before_ - guardBytes, before);
  return code == CL_SUCCESS ? write(before_ + bytes_, behind) : code;
}

bool Memory::isWhole(ClDevice& device, const Logger& logger) const {
  if (isImage()) return true;
  std::vector<unsigned char> found(before_ + bytes_ + guardBytes);
  device.cl.clEnqueueReadBuffer(device.queue.get(), whole_.get(), CL_TRUE, 0, found.size(), found.data(), 0, nullptr,
                                nullptr);
  const unsigned char* const data = found.data() + before_;
  if (!areGuardsWhole(logger, "a kernel", owner_, data, bytes_, key_, later_)) return false;
  if (isWritable_) return true;
  const auto* const content = reinterpret_cast<const unsigned char*>(content_.data());
  return isUnchanged(logger, "a kernel", owner_, data, content, content_.size());
}

}  // namespace emulator
