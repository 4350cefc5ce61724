// A finalized graph on this machine's processor: the ops of its nodes in their order, and the memory between them.
#pragma once

#include <deque>

#include "CPU/QnnCpuOpPackage.h"
#include "engine.hpp"
#include "guards.hpp"
#include "package.hpp"

namespace emulator {

class CpuGraph : public Executable {
 public:
  explicit CpuGraph(Logger logger) : logger_(std::move(logger)) {}
  ~CpuGraph() override;

  Qnn_ErrorHandle_t compile(const Composed& graph);
  Qnn_ErrorHandle_t execute(const std::vector<const void*>& inputs, const std::vector<void*>& outputs,
                            Measured* measured) override;

 private:
  /// A pointer that must lead to the data of a tensor before a node runs.
  struct Place {
    void** pointer;
    std::size_t index;  // of the client's buffer
  };
  /// What an op package is shown of a node; it may keep pointers into it for as long as the graph lives.
  struct Shown {
    QnnCpuOpPackage_Node_t node = {};
    std::deque<QnnCpuOpPackage_Tensor_t> tensors;
    std::deque<QnnCpuOpPackage_Param_t> params;
    std::vector<QnnCpuOpPackage_Tensor_t*> inputs, outputs;
    std::vector<QnnCpuOpPackage_Param_t*> paramPointers;
  };
  struct Step {
    std::string name;
    std::unique_ptr<BuiltIn> builtIn;      // or
    std::shared_ptr<Package> package;      // an op of a package
    std::unique_ptr<Shown> shown;
    QnnCpuOpPackage_OpImpl_t impl = {};    // a copy: the package hands out what it may move
    std::vector<void*> inputs, outputs;    // data, for a built-in op
  };
  /// Memory of a tensor between nodes, between guards.
  struct Between {
    const Tensor* tensor;
    std::vector<unsigned char> bytes;
  };

  Qnn_ErrorHandle_t addBuiltIn(const Composed& graph, const Node& node, Step& step);
  Qnn_ErrorHandle_t addCustom(const Composed& graph, const Node& node, Step& step);
  Qnn_ErrorHandle_t show(const Composed& graph, const Node& node, Shown& shown);
  Qnn_ErrorHandle_t showParam(const Qnn_Param_t& param, const Node& node, Shown& shown);
  Qnn_ErrorHandle_t showTensor(const Qnn_Tensor_t& tensor, const Node& node, Shown& shown);
  /// Lets a pointer lead to a tensor's data, from now on or before each execution.
  void lead(const Composed& graph, const Qnn_Tensor_t& tensor, void** pointer);
  Qnn_ErrorHandle_t runOne(const Step& step) const;
  bool isWhole() const;
  void fillGuards();

  Logger logger_;
  std::map<std::uint32_t, Between> between_;  // by the tensor's id
  std::deque<Step> steps_;
  std::vector<Place> fromInputs_, fromOutputs_;
  std::vector<std::pair<std::size_t, std::size_t>> both_;  // places of APP_READWRITE tensors in inputs and outputs
  std::vector<std::size_t> bothBytes_;
  std::size_t executions_ = 0;
};

}  // namespace emulator
