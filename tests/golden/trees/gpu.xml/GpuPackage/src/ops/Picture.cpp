// The C++ side of Picture on the GPU.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Picture.hpp"

namespace ops::GpuPackage::Picture {

// Both functions run once, when the graph is finalized, and need no memory of their own; an execution runs only the
// kernels, and none of the code in this file.
udo::Status PictureOperation(const Args& args, udo::Operation& operation) {
  // Check here what the config cannot express.
  return setKernelInfo(args, operation.kernel("Picture_kernel"));
}

udo::Status setKernelInfo([[maybe_unused]] const Args& args, udo::Kernel& kernel) {
  // One work item for each element, and the arguments in the order of the kernel's parameters in src/ops/Picture.cl.
  kernel.globalSize(args.y.size());
  kernel.read(args.x);
  kernel.write(args.y);
  // add code here; see include/ops/Picture.hpp for what args holds
  return udo::kernelNotImplemented("Picture", "src/ops/Picture.cpp");
}

}  // namespace ops::GpuPackage::Picture
