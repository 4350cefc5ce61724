#include "ops/Combine.hpp"

namespace ops::GpuPackage::Combine {

udo::Status CombineOperation(const Args& args, udo::Operation& operation) {
  return setKernelInfo(args, operation.kernel("Combine_kernel"));
}

udo::Status setKernelInfo(const Args& args, udo::Kernel& kernel) {
  std::int32_t extra = 0;
  for (std::size_t i = 0; i < args.table.size(); ++i) extra += args.table.data<std::int32_t>()[i];
  kernel.globalSize(args.y.size()).read(args.x).read(args.bias).write(args.y);
  kernel.value(args.scale).value(args.offset).value(args.flag).value(args.mode);
  kernel.read(args.weights).size(args.weights.size()).value(extra);
  return udo::ok;
}

}  // namespace ops::GpuPackage::Combine
