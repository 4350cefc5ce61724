// Softmax along the last axis, of a tensor of any rank; stored as float or half, computed as float.
#include "ops/Softmax.hpp"

namespace ops::SoftmaxUdoPackage::Softmax {

udo::Status SoftmaxOperation(const Args& args, udo::Operation& operation) {
  const udo::Shape shape = args.Placeholder.shape();
  if (shape.rank() == 0) return udo::error("the input must have an axis");
  if (args.Output.shape() != shape) return udo::error("the output must have the shape of the input");
  return setKernelInfo(args, operation.kernel("Softmax_kernel"));
}

udo::Status setKernelInfo(const Args& args, udo::Kernel& kernel) {
  const udo::Shape shape = args.Placeholder.shape();
  const std::uint32_t extent = shape[shape.rank() - 1];
  kernel.globalSize(shape.count() / extent);
  kernel.read(args.Placeholder);
  kernel.write(args.Output);
  kernel.value(extent);
  return udo::ok;
}

}  // namespace ops::SoftmaxUdoPackage::Softmax
