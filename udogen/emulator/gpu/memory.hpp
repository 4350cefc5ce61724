// Memory of the GPU: a buffer between guards, or an image.
#pragma once

#include "GPU/QnnGpuOpPackage.h"
#include "guards.hpp"
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

  /// As packages see it.
  const QnnGpu_MemoryObject_t& object() const { return object_; }

  cl_int write(ClDevice& device, const void* from) const;
  cl_int read(ClDevice& device, void* into) const;
  /// What must still be in it after the execution.
  void expect(const void* content) { content_.assign(static_cast<const char*>(content), static_cast<const char*>(content) + bytes_); }
  bool hasContent() const { return !content_.empty(); }
  /// An op may write it, though it is an input.
  void allowWrites() { isWritable_ = true; }
  /// Before an execution; `later` from the second on.
  cl_int fillGuards(ClDevice& device, GuardKey key, bool later);
  /// False, and the reason in the log, where something wrote beside it, or into it though it must not.
  bool isWhole(ClDevice& device, const Logger& logger) const;

 private:
  std::string owner_;
  OwnedMemory whole_;   // with the guards
  OwnedMemory memory_;  // what kernels are given: a part of it, or an image
  std::size_t before_ = 0;  // where the data begins
  GuardKey key_;
  bool later_ = false, isWritable_ = false;
  std::vector<char> content_;
  std::size_t bytes_ = 0;
  std::vector<std::uint32_t> dims_, offsets_;
  QnnGpu_MemoryObject_t object_ = {};
};

}  // namespace emulator
