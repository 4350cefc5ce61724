// CacheWrite: a cache of floats or bytes; rows of floats or of 16 bits are stored as the cache stores them.
#include "ops/CacheWrite.hpp"

#include <cstring>

namespace ops::LlmPackage::CacheWrite {

namespace {

/// Whether the old cache can be copied byte by byte, so that rows that stay are not rounded again.
bool alike(const Args& args) {
  if (args.past.shape() != args.updated.shape() || args.past.isFloat() != args.updated.isFloat()) return false;
  const udo::Quantization past = args.past.quantization(), updated = args.updated.quantization();
  return args.past.isFloat() || (past.scale == updated.scale && past.offset == updated.offset);
}

}  // namespace

udo::Status execute(const Args& args) {
  const udo::Shape cache = args.past.shape();
  const udo::Shape rows = args.rows.shape();
  const std::size_t along = cache.rank() - 2;
  const std::size_t width = cache[along + 1];
  if (!alike(args)) return udo::error("past and updated must have one shape, type and quantization");
  if (rows.rank() != cache.rank() || rows.count(0, along) != cache.count(0, along) || rows[along + 1] != width) {
    return udo::error("the rows do not fit into the cache");
  }
  const std::int64_t first = args.position[0];
  if (first < 0 || first + rows[along] > cache[along]) {
    return udo::error("%u rows from position %d on do not fit into a cache of %u", static_cast<unsigned>(rows[along]),
                      static_cast<int>(first), static_cast<unsigned>(cache[along]));
  }
  const std::size_t bytes = cache.count() * (args.past.isFloat() ? sizeof(float) : 1);
  std::memcpy(args.updated.data<std::uint8_t>(), args.past.data<std::uint8_t>(), bytes);
  const std::size_t many = rows[along] * width;
  for (std::size_t outer = 0; outer < cache.count(0, along); ++outer) {
    const std::size_t to = (outer * cache[along] + static_cast<std::size_t>(first)) * width;
    for (std::size_t i = 0; i < many; ++i) args.updated.setReal(to + i, args.rows.real(outer * many + i));
  }
  return udo::ok;
}

}  // namespace ops::LlmPackage::CacheWrite
