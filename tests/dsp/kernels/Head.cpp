// The first rows of a tensor: a parameter sets their number, and the output has the range of the input.
#include <cstring>

#include "ops/Head.hpp"

namespace ops::Several::Head {

udo::Status execute(const Args& args, udo::Dsp& dsp) {
  const udo::Shape shape = args.x.shape();
  if (udo::Status status = dsp.resize(args.y, {shape[0], args.rows, shape[2], shape[3]}); status != udo::ok) {
    return status;
  }
  std::memcpy(args.y.data(), args.x.data(), args.y.size());
  return dsp.setRange(args.y, args.x.lowest(), args.x.highest());
}

}  // namespace ops::Several::Head
