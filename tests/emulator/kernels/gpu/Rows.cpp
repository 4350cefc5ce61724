#include "ops/Rows.hpp"

namespace ops::GpuPackage::Rows {

udo::Status RowsOperation(const Args& args, udo::Operation& operation) {
  const udo::Shape shape = args.x.shape();
  const udo::Scratch total = operation.scratch(QNN_DATATYPE_FLOAT_32, shape[0]);
  constexpr std::size_t lanes = 4;
  udo::Kernel& sums = operation.kernel("sums");
  sums.globalSize(shape[0] * lanes).localSize(lanes);
  sums.read(args.x).write(total).local(lanes * sizeof(float)).value(shape[1]);
  operation.kernel("divided").globalSize(shape[1], shape[0]).read(args.x).read(total).write(args.y).value(shape[1]);
  return udo::ok;
}

udo::Status setKernelInfo(const Args&, udo::Kernel&) { return udo::ok; }

}  // namespace ops::GpuPackage::Rows
