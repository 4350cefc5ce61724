// Memory of the GPU: a buffer with a strip behind it that nobody may write, or an image.
#pragma once

#include "GPU/QnnGpuOpPackage.h"
#include "opencl.hpp"
#include "tensor.hpp"

namespace emulator {

class Memory {
 public:
  /// Empty, and the reason in the log, where there can be none.
  static std::unique_ptr<Memory> make(ClDevice& device, QnnGpu_MemoryObjectType_t type, Qnn_DataType_t dataType,
                                      const std::uint32_t* dims, std::uint32_t rank, std::string owner,
                                      const Logger& logger);

  cl_mem raw() const { return memory_.get(); }
  const std::string& owner() const { return owner_; }
  std::size_t bytes() const { return bytes_; }
  bool isImage() const { return object_.type == QNN_GPU_MEM_OBJ_TYPE_IMAGE2D; }

  /// As packages are told of it.
  const QnnGpu_MemoryObject_t& object() const { return object_; }

  cl_int write(ClDevice& device, const void* from) const;
  cl_int read(ClDevice& device, void* into) const;
  /// False where something wrote behind the end.
  bool isWhole(ClDevice& device) const;

 private:
  std::string owner_;
  OwnedMemory memory_;
  std::size_t bytes_ = 0;
  std::vector<std::uint32_t> dims_, offsets_;
  QnnGpu_MemoryObject_t object_ = {};
};

}  // namespace emulator
