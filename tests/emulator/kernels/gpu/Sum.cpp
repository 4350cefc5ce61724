#include "ops/Sum.hpp"

namespace ops::GpuPackage::Sum {

udo::Status SumOperation(const Args& args, udo::Operation& operation) {
  for (std::size_t i = 0; i < args.kernel.size(); ++i) {
    udo::Kernel& kernel = operation.kernel("Sum_kernel");
    kernel.read(args.kernel[i]);
    setKernelInfo(args, kernel);
    kernel.value(i == 0);
  }
  return udo::ok;
}

udo::Status setKernelInfo(const Args& args, udo::Kernel& kernel) {
  kernel.globalSize(args.out_0.size()).localSize(1).write(args.out_0);
  return udo::ok;
}

}  // namespace ops::GpuPackage::Sum
