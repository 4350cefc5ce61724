// CacheWrite on the CPU.
#include "ops/CacheWrite.hpp"

#include <algorithm>

namespace ops::LlmPackage::CacheWrite {

udo::Status finalize(const Args& args, State*&) {
  const udo::Shape cache = args.past.shape(), rows = args.rows.shape();
  if (args.updated.shape() != cache) return udo::error("past and updated must have one shape");
  if (cache.rank() < 2 || rows.rank() != cache.rank()) return udo::error("the rows do not fit into the cache");
  const std::size_t along = cache.rank() - 2;
  const bool fits = rows.count(0, along) == cache.count(0, along) && rows[along + 1] == cache[along + 1];
  return fits ? udo::ok : udo::error("the rows do not fit into the cache");
}

udo::Status execute(const Args& args, State*) {
  const udo::Shape cache = args.past.shape();
  const std::size_t along = cache.rank() - 2;
  const std::size_t width = cache[along + 1], rows = args.rows.shape()[along];
  const std::int64_t first = args.position[0];
  if (first < 0 || first + static_cast<std::int64_t>(rows) > cache[along]) {
    return udo::error("%u rows from position %d on do not fit into a cache of %u", static_cast<unsigned>(rows),
                      static_cast<int>(first), static_cast<unsigned>(cache[along]));
  }
  std::copy(args.past.begin(), args.past.end(), args.updated.data());
  for (std::size_t outer = 0; outer < cache.count(0, along); ++outer) {
    const float* const from = args.rows.data() + outer * rows * width;
    const std::size_t to = (outer * cache[along] + static_cast<std::size_t>(first)) * width;
    std::copy(from, from + rows * width, args.updated.data() + to);
  }
  return udo::ok;
}

void free(State*) {}

}  // namespace ops::LlmPackage::CacheWrite
