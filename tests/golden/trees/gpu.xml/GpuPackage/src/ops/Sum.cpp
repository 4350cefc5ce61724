// The C++ side of Sum on the GPU.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Sum.hpp"

namespace ops::GpuPackage::Sum {

// Both functions run once, when the graph is finalized, and need no memory of their own; an execution runs only the
// kernels, and none of the code in this file.
udo::Status SumOperation(const Args& args, udo::Operation& operation) {
  // Check here what the config cannot express.
  return setKernelInfo(args, operation.kernel("Sum_kernel"));
}

udo::Status setKernelInfo([[maybe_unused]] const Args& args, udo::Kernel& kernel) {
  // One work item for each element, and the arguments in the order of the kernel's parameters in src/ops/Sum.cl.
  kernel.globalSize(args.out_0.size());
  kernel.write(args.out_0);
  // add code here; see include/ops/Sum.hpp for what args holds
  return udo::kernelNotImplemented("Sum", "src/ops/Sum.cpp");
}

}  // namespace ops::GpuPackage::Sum
