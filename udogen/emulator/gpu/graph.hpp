// A finalized graph on OpenCL: the kernels of its nodes in their order, and the memory between them.
#pragma once

#include <map>

#include "memory.hpp"
#include "on_host.hpp"
#include "programs.hpp"

namespace emulator {

class ClGraph : public Executable {
 public:
  ClGraph(std::shared_ptr<ClDevice> device, Logger logger) : device_(std::move(device)), logger_(std::move(logger)) {}
  ~ClGraph() override;

  Qnn_ErrorHandle_t compile(Programs& programs, const Composed& graph, QnnOpPackage_GraphInfrastructure_t infrastructure);
  Qnn_ErrorHandle_t execute(const std::vector<const void*>& inputs, const std::vector<void*>& outputs,
                            Measured* measured) override;

 private:
  struct Launch {
    OwnedKernel kernel;
    std::string title;  // of its node, and its own
    cl_uint rank = 0;
    std::size_t global[3] = {}, local[3] = {};
    bool hasLocal = false;
    std::unique_ptr<OnHost> onHost;  // instead of a kernel: a built-in op
  };
  /// What a node was made of, for as long as the graph lives.
  struct Made {
    std::shared_ptr<Package> package;
    QnnGpu_Operation_t* operation;
    std::vector<std::unique_ptr<Memory>> scratch;
  };

  Qnn_ErrorHandle_t addNode(Programs& programs, const Composed& graph, const Node& node,
                            QnnOpPackage_GraphInfrastructure_t infrastructure);
  Qnn_ErrorHandle_t addBuiltIn(const Composed& graph, const Node& node);
  Qnn_ErrorHandle_t launch(const Launch& each);
  Qnn_ErrorHandle_t claim(const Composed& graph, const Node& node, const QnnGpu_Operation_t& operation);
  Qnn_ErrorHandle_t addKernel(Programs& programs, const Node& node, const Made& made, const QnnGpu_Kernel_t& kernel);
  bool setArgument(const Node& node, const Made& made, const Launch& launch, cl_uint at, const QnnGpu_KernelArg_t& arg);
  Memory* memoryOf(const Node& node, const Made& made, const QnnGpu_KernelArg_t& arg) const;
  bool makeBuffer(const Tensor& tensor);
  Qnn_ErrorHandle_t failed(const char* what, cl_int code) const;

  std::shared_ptr<ClDevice> device_;
  Logger logger_;
  std::map<std::uint32_t, std::unique_ptr<Memory>> memory_;  // by the tensor's id
  std::vector<Made> made_;
  std::vector<Launch> launches_;
  std::vector<Memory*> inputs_, outputs_;
  std::size_t executions_ = 0;
};

}  // namespace emulator
