// Softmax along any axis, of a tensor of any rank; stored as float or half, computed as float.
#include "ops/Softmax.hpp"

namespace ops::SoftmaxAxisPackage::Softmax {

udo::Status SoftmaxOperation(const Args& args, udo::Operation& operation) {
  const auto rank = static_cast<std::int64_t>(args.input.shape().rank());
  if (args.axis < -rank || args.axis >= rank) {
    return udo::error("axis is %d, but the input has rank %d", args.axis, static_cast<int>(rank));
  }
  if (args.output.shape() != args.input.shape()) return udo::error("the output must have the shape of the input");
  return setKernelInfo(args, operation.kernel("Softmax_kernel"));
}

udo::Status setKernelInfo(const Args& args, udo::Kernel& kernel) {
  const udo::Shape shape = args.input.shape();
  const auto axis = static_cast<std::size_t>(args.axis < 0 ? args.axis + static_cast<int>(shape.rank()) : args.axis);
  kernel.globalSize(shape.count() / shape[axis]);
  kernel.read(args.input);
  kernel.write(args.output);
  kernel.value(shape[axis]);
  kernel.size(shape.count(axis + 1, shape.rank()));
  return udo::ok;
}

}  // namespace ops::SoftmaxAxisPackage::Softmax
