// A node of a graph: a deep copy of its op config, whose tensors are those of the graph.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "built_in.hpp"
#include "tensor.hpp"

namespace emulator {

class Package;

using TensorMap = std::map<std::uint32_t, std::unique_ptr<Tensor>>;

class Node {
 public:
  /// A copy that refers to the tensors of its graph by their ids; 6004 where it names one that does not exist.
  static Qnn_ErrorHandle_t copy(const Qnn_OpConfigV1_t& from, const TensorMap& tensors, const Logger& logger,
                                std::unique_ptr<Node>& made);

  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  const Qnn_OpConfig_t& config() const { return config_; }
  const Qnn_OpConfigV1_t& v1() const { return config_.v1; }
  const char* name() const { return config_.v1.name; }

  std::shared_ptr<Package> package;  // null: a built-in op
  bool isBuiltIn() const { return package == nullptr; }

 private:
  const char* keep(const char* text);
  Qnn_ErrorHandle_t copyTensors(const Qnn_Tensor_t* from, std::uint32_t count, const TensorMap& tensors,
                                const Logger& logger, std::vector<Qnn_Tensor_t>& to);
  Qnn_ErrorHandle_t copyParams(const Qnn_OpConfigV1_t& from, const TensorMap& tensors, const Logger& logger);

  Qnn_OpConfig_t config_ = {};
  std::vector<std::unique_ptr<std::string>> texts_;
  std::vector<Qnn_Tensor_t> inputs_, outputs_;
  std::vector<Qnn_Param_t> params_;
  std::vector<std::unique_ptr<Tensor>> own_;  // tensor parameters that the client did not create in the graph
};

}  // namespace emulator
