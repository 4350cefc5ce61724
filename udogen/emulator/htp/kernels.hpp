// Which kernel runs an op, and its tensors.
#pragma once

#include "preparation.hpp"

/// A tensor as a kernel sees it: flat.
struct QHPI_Tensor {
  QHPI_OutputDef definition;
  QHPI_Standard_Layout layout;
  QHPI_MemLoc placement;
  void* data;  // null while kernels are chosen, and mostly while they prepare
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
  std::vector<QHPI_Tensor> inputs, outputs;
};

/// That of the tensor at this place; the last one is for all that follow.
inline const QHPI_Tensor_Signature_v1& signatureOf(const QHPI_Tensor_Signature_v1* all, std::uint32_t count,
                                                   std::size_t at) {
  return all[at < count ? at : count - 1];
}

/// The first kernel that takes the op's tensors, as libQnnHtp chooses; 1002 where none does.
Qnn_ErrorHandle_t choose(const QHPI_Op& op, const Logger& logger, KernelChoice& chosen);

}  // namespace emulator
