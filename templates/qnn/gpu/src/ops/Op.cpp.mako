// The C++ side of ${op.name} on the GPU.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/${op.name}.hpp"

namespace ops::${package.name}::${op.name} {

// Both functions run once, when the graph is finalized, and need no memory of their own; an execution runs only the
// kernels, and none of the code in this file.
udo::Status ${op.name}Operation(const Args& args, udo::Operation& operation) {
  // Check here what the config cannot express.
  return setKernelInfo(args, operation.kernel("${op.entry}"));
}

udo::Status setKernelInfo([[maybe_unused]] const Args& args, udo::Kernel& kernel) {
  // One work item for each element, and the arguments in the order of the kernel's parameters in ${op.kernel_text}.
  kernel.globalSize(${op.work});
% for line in op.passed:
  kernel.${line};
% endfor
  // add code here; see ${op.header} for what args holds
  return udo::kernelNotImplemented("${op.name}", "${op.kernel}");
}

}  // namespace ops::${package.name}::${op.name}
