// The GPU kernel of ${op.name}, and its caller.  Auto-generated once by udogen: it is yours, and your changes are kept.
#include "ops/${op.name}.hpp"

namespace ops::${package.name}::${op.name} {

// The OpenCL kernel.  INPUT, OUTPUT, LOAD, STORE and similar macros are in Prelude.cl: LOAD returns a float whether
// half, float or fixed point is stored, so the same text works for all of them.  To keep the text in a separate file,
// write ${op.kernel_text} and leave out .source(kernelText) below.
constexpr char kernelText[] = R"cl(
__kernel void ${op.entry}(
% for line in op.declared:
    ${line}
% endfor
) {
  // add code here
}
)cl";

// Both functions run once, when the graph is finalized, and need no memory of their own; an execution runs only the
// kernels, and none of the C++ code in this file.
udo::Status ${op.name}Operation(const Args& args, udo::Operation& operation) {
  // Check here what the config cannot express.
  return setKernelInfo(args, operation.kernel("${op.entry}").source(kernelText));
}

udo::Status setKernelInfo([[maybe_unused]] const Args& args, udo::Kernel& kernel) {
  // One work item for each element, and the arguments in the order of the kernel's parameters.
  kernel.globalSize(${op.work});
% for line in op.passed:
  kernel.${line};
% endfor
  // add code here; see ${op.header} for what args holds
  return udo::kernelNotImplemented("${op.name}", "${op.kernel}");
}

}  // namespace ops::${package.name}::${op.name}
