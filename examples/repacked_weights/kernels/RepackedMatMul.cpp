// RepackedMatMul: x of 8 bits times weights in the rows of a udogen.runtime.RepackBuffer.
//
// A row has its quants first, 128 of Q8_0 or 256 of Q4_0 in each 128 bytes (Q4_0: byte i has quant i in its low nibble and
// quant i + 128 in its high one), then a float16 scale for each 32 quants.  Sums within a block are integers.
#include "ops/RepackedMatMul.hpp"

#include <cstring>

#if defined(__HVX__)
#include <hexagon_protos.h>
#include <hexagon_types.h>
#endif

namespace ops::RepackedPackage::RepackedMatMul {
namespace {

constexpr std::size_t block = 32, vector = 128, blocks = vector / block;

/// For each of the four blocks in 128 quants: the sum of x * quant, and of the quants.
struct Sums {
  std::int32_t products[blocks], quants[blocks];
};

#if defined(__HVX__)
/// Lanes 0, 8, 16 and 24 become the sums of eight lanes each.
void store(HVX_Vector words, std::int32_t* sums) {
  words = Q6_Vw_vadd_VwVw(words, Q6_V_vror_VR(words, 4));
  words = Q6_Vw_vadd_VwVw(words, Q6_V_vror_VR(words, 8));
  words = Q6_Vw_vadd_VwVw(words, Q6_V_vror_VR(words, 16));
  alignas(128) std::int32_t lanes[32];
  *reinterpret_cast<HVX_Vector*>(lanes) = words;
  for (std::size_t i = 0; i < blocks; ++i) sums[i] = lanes[8 * i];
}

Sums sumsOf(const std::uint8_t* x, const std::uint8_t* row, std::size_t part, std::uint32_t bits) {
  HVX_Vector quants = *reinterpret_cast<const HVX_UVector*>(row + (bits == 4 ? part / 2 : part) * vector);
  if (bits == 4) {
    quants = part % 2 == 0 ? Q6_V_vand_VV(quants, Q6_V_vsplat_R(0x0f0f0f0f))
                           : Q6_V_vand_VV(Q6_Vuh_vlsr_VuhR(quants, 4), Q6_V_vsplat_R(0x0f0f0f0f));
    quants = Q6_Vb_vsub_VbVb(quants, Q6_V_vsplat_R(0x08080808));
  }
  Sums sums;
  store(Q6_Vw_vrmpy_VubVb(*reinterpret_cast<const HVX_UVector*>(x), quants), sums.products);
  store(Q6_Vw_vrmpy_VubVb(Q6_V_vsplat_R(0x01010101), quants), sums.quants);
  return sums;
}
#else
std::int32_t quantAt(const std::uint8_t* row, std::size_t i, std::uint32_t bits) {
  if (bits == 8) return static_cast<std::int8_t>(row[i]);
  const std::uint8_t both = row[i / (2 * vector) * vector + i % vector];
  return (i / vector % 2 == 0 ? both & 15 : both >> 4) - 8;
}

Sums sumsOf(const std::uint8_t* x, const std::uint8_t* row, std::size_t part, std::uint32_t bits) {
  Sums sums = {};
  for (std::size_t i = 0; i < vector; ++i) {
    const std::int32_t quant = quantAt(row, part * vector + i, bits);
    sums.products[i / block] += x[i] * quant;
    sums.quants[i / block] += quant;
  }
  return sums;
}
#endif

float fromHalf(const std::uint8_t* bytes) {
  const std::uint32_t half = static_cast<std::uint32_t>(bytes[0] | bytes[1] << 8);
  const std::uint32_t exponent = half >> 10 & 31, fraction = half & 1023;
  const float small = static_cast<float>(fraction) * 0x1p-24f;
  if (exponent == 0) return half >> 15 == 0 ? small : -small;
  const std::uint32_t bits = half >> 15 << 31 | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13;
  float real;
  std::memcpy(&real, &bits, sizeof real);
  return real;
}

std::size_t padded(std::size_t bytes) { return (bytes + vector - 1) / vector * vector; }

}  // namespace

udo::Status execute(const Args& args) {
  const udo::Shape x = args.x.shape(), w = args.weights.shape(), y = args.y.shape();
  const std::size_t columns = x[x.rank() - 1], stride = w[w.rank() - 1], outputs = y[y.rank() - 1];
  if (args.bits != 4 && args.bits != 8) return udo::error("bits must be 4 (Q4_0) or 8 (Q8_0)");
  if (columns == 0 || columns % block != 0) return udo::error("the rows of x must be whole blocks of 32");
  const std::size_t scales = padded(columns * args.bits / 8);
  if (stride != scales + padded(columns / block * 2)) return udo::error("the weights are not repacked rows as long as those of x");
  if (args.weights.size() != outputs * stride || args.y.size() != args.x.size() / columns * outputs) {
    return udo::error("y must have a row for each row of x, and a column for each row of weights");
  }
  const float scale = args.x.quantization().scale;
  const std::int32_t offset = args.x.quantization().offset;
  for (std::size_t i = 0; i < args.y.size(); ++i) {
    const std::uint8_t* const values = args.x.data() + i / outputs * columns;
    const std::uint8_t* const row = args.weights.data() + i % outputs * stride;
    float total = 0.0f;
    for (std::size_t first = 0; first < columns; first += vector) {
      const std::size_t count = columns - first < vector ? columns - first : vector;
      alignas(128) std::uint8_t last[vector] = {};  // bytes after a row of x are not read
      if (count < vector) std::memcpy(last, values + first, count);
      const Sums sums = sumsOf(count < vector ? last : values + first, row, first / vector, args.bits);
      for (std::size_t each = 0; each < count / block; ++each) {
        const float factor = fromHalf(row + scales + (first / block + each) * 2);
        total += factor * static_cast<float>(sums.products[each] + offset * sums.quants[each]);
      }
    }
    args.y.data()[i] = total * scale;
  }
  return udo::ok;
}

}  // namespace ops::RepackedPackage::RepackedMatMul
