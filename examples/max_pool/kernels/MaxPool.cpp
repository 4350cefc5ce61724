// The greatest value in each window of an image (batch, rows, columns, channels).
#include "ops/MaxPool.hpp"

#include <algorithm>

namespace ops::MaxPoolPackage::MaxPool {

struct State {};  // nothing but checks

udo::Status prepare(const Args& args, State&) {
  const udo::Shape in = args.image.shape();
  const udo::Shape out = args.pooled.shape();
  if (args.size < 1 || args.stride < 1) return udo::error("size and stride must be at least 1");
  if (out[0] != in[0] || out[3] != in[3]) return udo::error("the output must have the batch and channels of the image");
  for (const std::size_t axis : {1u, 2u}) {
    if ((out[axis] - 1) * args.stride >= in[axis]) return udo::error("a window of axis %zu begins outside", axis);
  }
  return udo::ok;
}

udo::Status execute(const Args& args) {
  const udo::Shape in = args.image.shape();
  const udo::Shape out = args.pooled.shape();
  const float* image = args.image.data();
  float* pooled = args.pooled.data();
  for (std::size_t n = 0; n < out[0]; ++n) {
    for (std::size_t row = 0; row < out[1]; ++row) {
      for (std::size_t column = 0; column < out[2]; ++column) {
        const std::size_t top = row * args.stride, left = column * args.stride;
        const std::size_t bottom = std::min<std::size_t>(top + args.size, in[1]);
        const std::size_t right = std::min<std::size_t>(left + args.size, in[2]);
        for (std::size_t channel = 0; channel < out[3]; ++channel) {
          float greatest = image[((n * in[1] + top) * in[2] + left) * in[3] + channel];
          for (std::size_t y = top; y < bottom; ++y) {
            for (std::size_t x = left; x < right; ++x) {
              greatest = std::max(greatest, image[((n * in[1] + y) * in[2] + x) * in[3] + channel]);
            }
          }
          *pooled++ = greatest;
        }
      }
    }
  }
  return udo::ok;
}

}  // namespace ops::MaxPoolPackage::MaxPool
