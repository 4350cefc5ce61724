// LeakyRelu on floats, halves or fixed point of 8 bits.
#include "ops/LeakyRelu.hpp"

namespace ops::LeakyReluPackage::LeakyRelu {

udo::Status LeakyReluOperation(const Args& args, udo::Operation& operation) {
  if (args.output.shape() != args.input.shape()) return udo::error("the output must have the shape of the input");
  return setKernelInfo(args, operation.kernel("LeakyRelu_kernel"));
}

udo::Status setKernelInfo(const Args& args, udo::Kernel& kernel) {
  kernel.globalSize((args.input.size() + 3) / 4);
  kernel.read(args.input);
  kernel.write(args.output);
  kernel.value(args.alpha);
  kernel.size(args.input.size());
  return udo::ok;
}

}  // namespace ops::LeakyReluPackage::LeakyRelu
