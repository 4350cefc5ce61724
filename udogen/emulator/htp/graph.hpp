// A finalized graph of HTP: its kernels in their order, and the memory between them.
#pragma once

#include <functional>

#include "guards.hpp"
#include "kernels.hpp"
#include "context_memory.hpp"

namespace emulator {

class HtpGraph : public Executable {
 public:
  HtpGraph(ContextMemory& shared, const Logger& logger) : shared_(shared), logger_(logger) {}

  /// Prepares the graph for so many threads; `stages` gets the graph after each stage, as JSON, unless it is null.
  Qnn_ErrorHandle_t compile(const Composed& graph, std::uint32_t threads, std::vector<std::string>* stages);
  Qnn_ErrorHandle_t execute(const std::vector<const void*>& inputs, const std::vector<void*>& outputs,
                            Measured* measured) override;

 private:
  struct Value {
    unsigned char* data = nullptr;
    std::size_t bytes = 0;
    bool isGuarded = false;  // the bytes behind it must not change
    bool isGuardedBefore = false;
    GuardKey guard;
  };
  using Key = std::pair<const QHPI_Op*, std::uint32_t>;

  /// A kernel with its tensors, or work of HTP's own.
  struct Step {
    std::string title;
    KernelChoice chosen;
    std::vector<QHPI_Tensor*> outputs;
    std::vector<const QHPI_Tensor*> inputs;
    std::vector<unsigned char*> inputData, outputData;  // flat
    std::vector<std::vector<unsigned char>> given;      // copies of the inputs from before the call
    std::vector<AlignedMemory> owned;                   // of its blocks, of what it prepared, of its slices
    void* prepared = nullptr;
    void* shared = nullptr;
    std::uint32_t slices = 1;
    bool inPlace = false;
    std::function<void()> work;
  };

  Qnn_ErrorHandle_t prepareAll(const Composed& graph, std::vector<std::string>* stages, std::vector<KernelChoice>& chosen);
  void layMemory(const std::vector<QHPI_Op*>& order);
  void addKernel(KernelChoice chosen, std::uint32_t threads);
  Qnn_ErrorHandle_t addWork(const QHPI_Op& op);
  Qnn_ErrorHandle_t run(Step& step);
  /// An exception of a kernel ends the process, as it does in libQnnHtp.
  std::uint32_t call(Step& step, std::uint32_t slice) const noexcept;
  /// False, with the reason in the log, if the kernel wrote into an input or beside a tensor.
  bool areTensorsWhole(const Step& step) const;
  bool areGuardsWhole(const Step& step, const Value& value, const std::string& name) const;
  void fillGuards() const;

  ContextMemory& shared_;
  const Logger logger_;
  std::unique_ptr<Preparation> preparation_;  // its nodes are the keys of the values
  std::map<Key, Value> values_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<AlignedMemory> owned_;
  std::vector<std::pair<const Tensor*, Value>> inputs_, outputs_;
  std::size_t executions_ = 0;
};

/// The graph of a stage as JSON; `chosen` is empty before kernels are chosen.
std::string toJson(const Preparation& graph, const char* stage, const std::vector<KernelChoice>& chosen);

}  // namespace emulator
