// The C++ side of Combine on the GPU.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Combine.hpp"

namespace ops::GpuPackage::Combine {

// Both functions run once, when the graph is finalized, and need no memory of their own; an execution runs only the
// kernels, and none of the code in this file.
udo::Status CombineOperation(const Args& args, udo::Operation& operation) {
  // Check here what the config cannot express.
  return setKernelInfo(args, operation.kernel("Combine_kernel"));
}

udo::Status setKernelInfo([[maybe_unused]] const Args& args, udo::Kernel& kernel) {
  // One work item for each element, and the arguments in the order of the kernel's parameters in src/ops/Combine.cl.
  kernel.globalSize(args.y.size());
  kernel.read(args.x);
  kernel.read(args.bias);
  kernel.write(args.y);
  kernel.value(args.scale);
  kernel.value(args.offset);
  kernel.value(args.flag);
  kernel.value(args.mode);
  kernel.read(args.weights);
  // add code here; see include/ops/Combine.hpp for what args holds
  return udo::kernelNotImplemented("Combine", "src/ops/Combine.cpp");
}

}  // namespace ops::GpuPackage::Combine
