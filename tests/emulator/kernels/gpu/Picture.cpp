#include "ops/Picture.hpp"

namespace ops::GpuPackage::Picture {

udo::Status PictureOperation(const Args& args, udo::Operation& operation) {
  const udo::Shape shape = args.y.shape();
  operation.claimImage(args.y, shape[0] * shape[1], shape[2] * shape[3] / 4);
  return setKernelInfo(args, operation.kernel("Picture_kernel"));
}

udo::Status setKernelInfo(const Args& args, udo::Kernel& kernel) {
  kernel.globalSize(args.y.size() / 4).read(args.x).write(args.y);
  return udo::ok;
}

}  // namespace ops::GpuPackage::Picture
