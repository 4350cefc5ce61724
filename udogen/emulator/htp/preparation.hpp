// A graph while HTP prepares it: what rewrites see and change.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "HTP/core/qhpi.h"
#include "engine.hpp"

namespace emulator {

class Preparation;

enum class OpKind { input, constant, op, builtIn, slice, concat, copy, shape, error };

}  // namespace emulator

/// A node: what packages hold as a handle.
struct QHPI_Op {
  emulator::Preparation* graph;
  std::uint32_t id;
  emulator::OpKind kind;
  std::string name;                   // Package::Op, or what the public interface calls such a node
  std::string node;                   // of the client's graph, from which it was made
  const QHPI_OpInfo_v1* info;         // of an op of a package
  const emulator::Node* origin;       // of a built-in op
  const emulator::Tensor* tensor;     // of an input
  std::vector<QHPI_OpRef> inputs;
  std::vector<QHPI_OutputDef> outputs;
  std::vector<unsigned char> data;    // of a constant, as HTP stores it
  bool isParam;                       // a constant that was a parameter
  QHPI_Shape start;                   // of a slice
  std::uint32_t axis;                 // of a concatenation
  std::string message;                // of an error
};

namespace emulator {

constexpr Qnn_ErrorHandle_t refused = QNN_GRAPH_ERROR_MEM_ALLOC;  // 1002: what libQnnHtp returns for a failed preparation

inline std::string titleOf(const QHPI_Op& op) { return "node `" + op.node + "` (" + op.name + ")"; }

class Preparation {
 public:
  explicit Preparation(const Logger& logger) : logger(logger) {}

  /// The client's graph as nodes.
  Qnn_ErrorHandle_t compose(const Composed& graph);
  /// Lets the packages replace their ops: `when` is early or late.
  Qnn_ErrorHandle_t rewrite(bool early);

  QHPI_Op* make(OpKind kind, const std::string& name, const QHPI_Op* like = nullptr);
  QHPI_Op* fail(const std::string& why, const QHPI_Op* like = nullptr);
  /// All nodes that the outputs need, each behind its inputs.
  std::vector<QHPI_Op*> order() const;
  std::uint32_t uses(const QHPI_Op* op) const;

  struct Result {
    const Tensor* tensor;
    QHPI_OpRef from;
  };
  std::vector<Result> results;

  const Logger& logger;

 private:
  Qnn_ErrorHandle_t add(const Node& node, std::map<std::uint32_t, QHPI_OpRef>& values);
  QHPI_Op* constant(const Tensor& tensor, const std::string& node);
  QHPI_Op* scalar(const Qnn_Param_t& param, const std::string& node);
  Qnn_ErrorHandle_t replace(QHPI_Op* old, const QHPI_Op* with, const char* stage);
  std::deque<std::unique_ptr<QHPI_Op>> ops_;
};

/// How HTP delivers a tensor: type, quantization, and a shape of at least four dimensions.
QHPI_OutputDef definitionOf(const Tensor& tensor);
std::size_t bytesOf(const QHPI_OutputDef& output);
const QHPI_OutputDef& definitionOf(const QHPI_OpRef& ref);
std::string textOf(const QHPI_Shape& shape);
/// Signed types of 8 and 16 bits travel as unsigned ones: copies, and turns their highest bit.
void flipSigns(Qnn_DataType_t type, std::size_t bytes, const void* from, void* to);
/// Whether HTP has tensors of this type, and parameters of it that are one number.
bool hasTensorsOf(Qnn_DataType_t type);
bool hasScalarsOf(Qnn_DataType_t type);

}  // namespace emulator
