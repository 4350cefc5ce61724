#include "ops/Text.hpp"

namespace ops::GpuPackage::Text {

udo::Status TextOperation(const Args& args, udo::Operation& operation) {
  return setKernelInfo(args, operation.kernel("triple"));
}

udo::Status setKernelInfo(const Args& args, udo::Kernel& kernel) {
  kernel.source("__kernel void triple(INPUT(x), OUTPUT(y)) {\n"
                "  STORE(y, get_global_id(0), FACTOR * LOAD(x, get_global_id(0)));\n"
                "}\n");
  kernel.options("-DFACTOR=3.0f").globalSize(args.y.size()).read(args.x).write(args.y);
  return udo::ok;
}

}  // namespace ops::GpuPackage::Text
