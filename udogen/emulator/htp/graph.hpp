// A finalized graph of HTP: its kernels in their order, and the memory between them.
#pragma once

#include <functional>

#include "context_memory.hpp"
#include "kernels.hpp"

namespace emulator {

class HtpGraph : public Executable {
 public:
  HtpGraph(ContextMemory& shared, const Logger& logger) : shared_(shared), logger_(logger), preparation_(logger_) {}

  /// Prepares the graph for so many threads.
  Qnn_ErrorHandle_t compile(const Composed& graph, std::uint32_t threads);
  Qnn_ErrorHandle_t execute(const std::vector<const void*>& inputs, const std::vector<void*>& outputs,
                            Measured* measured) override;

 private:
  struct Value {
    unsigned char* data = nullptr;
    std::size_t bytes = 0;
  };

  /// A kernel with its tensors, or a built-in op.
  struct Step {
    std::string title;
    KernelChoice chosen;
    std::vector<QHPI_Tensor*> outputs;
    std::vector<const QHPI_Tensor*> inputs;
    std::vector<AlignedMemory> owned;  // of what it prepared, of its slices
    void* prepared = nullptr;
    void* shared = nullptr;
    std::uint32_t slices = 1;
    const void* overwritten = nullptr;  // the first input of a kernel that works in place
    std::function<void()> builtIn;
  };

  void layMemory();
  /// The memory of an input of a node; null for one that is left out.
  unsigned char* dataOf(const QHPI_OpRef& ref) const;
  void addKernel(KernelChoice chosen, std::uint32_t threads);
  void prepare(Step& step) const;
  Qnn_ErrorHandle_t addBuiltIn(const QHPI_Op& op);
  Qnn_ErrorHandle_t run(Step& step);
  /// An exception of a kernel ends the process, as it does in libQnnHtp.
  std::uint32_t call(Step& step, std::uint32_t slice) const noexcept;

  ContextMemory& shared_;
  const Logger logger_;
  Preparation preparation_;  // its nodes are the keys of the values
  std::map<std::pair<const QHPI_Op*, std::uint32_t>, Value> values_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<AlignedMemory> owned_;
  std::vector<std::pair<const Tensor*, Value>> inputs_, outputs_;
};

}  // namespace emulator
