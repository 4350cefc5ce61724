// The C++ side of Rows on the GPU.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/Rows.hpp"

namespace ops::GpuPackage::Rows {

// Both functions run once, when the graph is finalized, and need no memory of their own; an execution runs the kernels,
// and nothing of this file.
udo::Status RowsOperation(const Args& args, udo::Operation& operation) {
  // Check here what the config cannot express.
  return setKernelInfo(args, operation.kernel("Rows_kernel"));
}

udo::Status setKernelInfo([[maybe_unused]] const Args& args, udo::Kernel& kernel) {
  // One work item for each element, and the arguments in the order of the kernel's parameters in src/ops/Rows.cl.
  kernel.globalSize(args.y.size());
  kernel.read(args.x);
  kernel.write(args.y);
  // add code here; see include/ops/Rows.hpp for what args holds
  return udo::kernelNotImplemented("Rows", "src/ops/Rows.cpp");
}

}  // namespace ops::GpuPackage::Rows
