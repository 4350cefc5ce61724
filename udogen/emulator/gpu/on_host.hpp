// A built-in op in a graph on OpenCL: its tensors are read from the GPU, computed with here, and written back.
#pragma once

#include "built_in.hpp"
#include "memory.hpp"

namespace emulator {

class OnHost {
 public:
  OnHost(std::unique_ptr<BuiltIn> op) : op_(std::move(op)) {}

  /// A tensor of the node in its place; null: left out.
  void addInput(const Tensor* tensor, const Memory* memory) { inputs_.push_back({tensor, memory, {}}); }
  void addOutput(const Tensor& tensor, const Memory& memory) { outputs_.push_back({&tensor, &memory, {}}); }

  cl_int run(ClDevice& device);

 private:
  struct Side {
    const Tensor* tensor;
    const Memory* memory;
    std::vector<unsigned char> bytes;
  };
  static cl_int fetch(ClDevice& device, Side& side);

  std::unique_ptr<BuiltIn> op_;
  std::vector<Side> inputs_, outputs_;
};

}  // namespace emulator
