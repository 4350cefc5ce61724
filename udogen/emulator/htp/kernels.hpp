// Which kernel runs an op, and where its tensors lie.
#pragma once

#include "operand.hpp"
#include "preparation.hpp"

namespace emulator {

/// An op with its kernel; its tensors have no data yet.
struct Chosen {
  const QHPI_Op* op = nullptr;
  const QHPI_Kernel_v1* kernel = nullptr;
  std::vector<std::unique_ptr<QHPI_Tensor>> inputs, outputs;
  std::vector<bool> isReadable;  // inputs whose data is there while the kernel prepares
  float cycles = 0;              // what its cost function says; 0: nobody asked
};

/// The first kernel that takes the op's tensors, as libQnnHtp chooses; 1002 where none does, or TCM is too small.
Qnn_ErrorHandle_t choose(const QHPI_Op& op, const Processor& processor, const Logger& logger, Chosen& chosen);

}  // namespace emulator
