// The scalar C++ version of a kernel in Python: the baseline for the vectorized one.
#include "ops/MaxPool.hpp"

#include <algorithm>

namespace ops::PythonKernels::MaxPool {

udo::Status execute(const Args& args) {
  const udo::Shape in = args.x.shape(), out = args.y.shape();
  const auto size = static_cast<std::size_t>(args.size), stride = static_cast<std::size_t>(args.stride);
  std::size_t at = 0;
  for (std::size_t h = 0; h < out[1]; ++h) {
    for (std::size_t w = 0; w < out[2]; ++w) {
      for (std::size_t c = 0; c < out[3]; ++c) {
        float largest = args.x.real((h * stride * in[2] + w * stride) * in[3] + c);
        for (std::size_t i = 0; i < size; ++i) {
          for (std::size_t j = 0; j < size; ++j) {
            largest = std::max(largest, args.x.real(((h * stride + i) * in[2] + w * stride + j) * in[3] + c));
          }
        }
        args.y.setReal(at++, largest);
      }
    }
  }
  return udo::ok;
}

}  // namespace ops::PythonKernels::MaxPool
