// The C++ side of Text on the GPU.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Text.hpp"

namespace ops::GpuPackage::Text {

// Both functions run once, when the graph is finalized, and need no memory of their own; an execution runs the kernels,
// and nothing of this file.
udo::Status TextOperation(const Args& args, udo::Operation& operation) {
  // Check here what the config cannot express.
  return setKernelInfo(args, operation.kernel("Text_kernel"));
}

udo::Status setKernelInfo([[maybe_unused]] const Args& args, udo::Kernel& kernel) {
  // One work item for each element, and the arguments in the order of the kernel's parameters in src/ops/Text.cl.
  kernel.globalSize(args.y.size());
  kernel.read(args.x);
  kernel.write(args.y);
  // add code here; see include/ops/Text.hpp for what args holds
  return udo::kernelNotImplemented("Text", "src/ops/Text.cpp");
}

}  // namespace ops::GpuPackage::Text
