// How each built-in op is made of a checked node; the rows are in built_in.cpp.
#pragma once

#include "built_in.hpp"
#include "elements.hpp"

namespace emulator {

/// A node whose counts, types and parameter names are checked already.
struct Checked {
  const Qnn_OpConfigV1_t& config;
  std::vector<Format> inputs, outputs;
  const Logger& logger;

  /// A sentence about this node in the log, and 3110.
  [[gnu::format(printf, 2, 3)]] Qnn_ErrorHandle_t refuse(const char* format, ...) const;
  const Qnn_Param_t* find(const char* name) const;
  std::uint32_t number(const char* name, std::uint32_t otherwise) const;
  double real(const char* name, double otherwise) const;
};

using Make = Qnn_ErrorHandle_t (*)(const Checked& node, std::unique_ptr<BuiltIn>& made);

Qnn_ErrorHandle_t makeRelu(const Checked& node, std::unique_ptr<BuiltIn>& made);
Qnn_ErrorHandle_t makeAdd(const Checked& node, std::unique_ptr<BuiltIn>& made);
Qnn_ErrorHandle_t makeMultiply(const Checked& node, std::unique_ptr<BuiltIn>& made);
Qnn_ErrorHandle_t makeSoftmax(const Checked& node, std::unique_ptr<BuiltIn>& made);
Qnn_ErrorHandle_t makeMatMul(const Checked& node, std::unique_ptr<BuiltIn>& made);
Qnn_ErrorHandle_t makeReshape(const Checked& node, std::unique_ptr<BuiltIn>& made);
Qnn_ErrorHandle_t makeTranspose(const Checked& node, std::unique_ptr<BuiltIn>& made);
Qnn_ErrorHandle_t makeConcat(const Checked& node, std::unique_ptr<BuiltIn>& made);

/// The shape of a product of matrices; empty, and the reason in the log, where there is none.
std::vector<std::uint32_t> productOf(const Checked& node, bool turnA, bool turnB);
/// A shape as people write it.
std::string textOf(const std::vector<std::uint32_t>& dims);
/// The shape of two that are broadcast as numpy does it; false where they do not fit.
bool broadcast(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b, std::vector<std::uint32_t>& both);
/// For each element of a shape, which element of a tensor that is broadcast to it.
std::vector<std::size_t> places(const std::vector<std::uint32_t>& from, const std::vector<std::uint32_t>& to);

}  // namespace emulator
