// A client's graph as nodes of HTP: parameters are further inputs, shapes have at least four dimensions.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "HTP/core/qhpi.h"
#include "engine.hpp"

namespace emulator {

class Preparation;

enum class OpKind { input, constant, op, builtIn, missing, error };

}  // namespace emulator

/// A node: what packages hold as a handle.
struct QHPI_Op {
  emulator::Preparation* graph;
  emulator::OpKind kind;
  std::string name;                 // Package::Op; the message of an error
  std::string node;                 // of the client's graph
  const QHPI_OpInfo_v1* info;       // of an op of a package
  const emulator::Node* origin;     // of a built-in op
  const emulator::Tensor* tensor;   // of an input
  std::vector<QHPI_OpRef> inputs;
  std::vector<QHPI_OutputDef> outputs;
  std::vector<unsigned char> data;  // of a constant, as HTP stores it
  bool isParam;                     // a constant that was a parameter
};

namespace emulator {

constexpr Qnn_ErrorHandle_t refused = QNN_GRAPH_ERROR_MEM_ALLOC;  // 1002: what libQnnHtp returns for a failed preparation

inline std::string titleOf(const QHPI_Op& op) { return "node `" + op.node + "` (" + op.name + ")"; }

class Preparation {
 public:
  explicit Preparation(const Logger& logger) : logger_(logger) {}

  /// The client's graph as nodes.
  Qnn_ErrorHandle_t compose(const Composed& graph);
  QHPI_Op* make(OpKind kind, const std::string& name, const QHPI_Op* like = nullptr);

  struct Result {
    const Tensor* tensor;
    QHPI_OpRef from;
  };
  std::vector<const QHPI_Op*> inputs, ops;  // ops: each behind its inputs
  std::vector<Result> results;

 private:
  Qnn_ErrorHandle_t add(const Node& node, std::map<std::uint32_t, QHPI_OpRef>& values);
  Qnn_ErrorHandle_t addParams(const Qnn_OpConfigV1_t& config, const std::map<std::uint32_t, QHPI_OpRef>& values,
                              QHPI_Op& op);
  /// Lets the package put the parameters of a node in order.
  Qnn_ErrorHandle_t rewrite(const QHPI_Op*& op) const;
  QHPI_Op* constant(const Tensor& tensor, const std::string& node);
  QHPI_Op* scalar(const Qnn_Param_t& param, const std::string& node);

  const Logger& logger_;
  std::deque<std::unique_ptr<QHPI_Op>> nodes_;
};

/// How HTP delivers a tensor: type, quantization, and a shape of at least four dimensions.
QHPI_OutputDef definitionOf(const Tensor& tensor);
std::uint32_t sizeOfElement(QHPI_Element_Type type);
std::size_t bytesOf(const QHPI_OutputDef& output);
const QHPI_OutputDef& definitionOf(const QHPI_OpRef& ref);
/// Copies; signed types of 8 and 16 bits are stored as unsigned ones, so their highest bit is inverted.
void flipSigns(Qnn_DataType_t type, std::size_t bytes, const void* from, void* to);
/// Whether HTP has tensors of this type.
bool hasTensorsOf(Qnn_DataType_t type);

}  // namespace emulator
