// Which kernel runs an op, and where its tensors lie.
#pragma once

#include "preparation.hpp"

/// A tensor as a kernel sees it.
struct QHPI_Tensor {
  QHPI_OutputDef definition;
  QHPI_Standard_Layout layout;
  QHPI_MemLoc placement;
  bool isIndirect;
  void* data;                 // null while kernels are chosen, and mostly while they prepare
  std::vector<void*> blocks;  // of a tensor in blocks; else `data` alone
};

/// What a kernel asks about its thread.
struct QHPI_RuntimeHandle {
  std::uint32_t slices, slice;
  void* shared;
};

namespace emulator {

/// An op with its kernel; its tensors have no data yet.
struct KernelChoice {
  const QHPI_Op* op = nullptr;
  const QHPI_Kernel_v1* kernel = nullptr;
  std::vector<std::unique_ptr<QHPI_Tensor>> inputs, outputs;
  std::vector<bool> isReadable;  // inputs that have data while the kernel prepares
};

/// The first kernel that takes the op's tensors, as libQnnHtp chooses; 1002 where none does.
Qnn_ErrorHandle_t choose(const QHPI_Op& op, const Logger& logger, KernelChoice& chosen);

}  // namespace emulator
