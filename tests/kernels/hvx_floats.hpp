// The instructions of HVX for half floats, for other processors.  Qfloat has neither infinities nor NaN; its last bit
// is always set, so that it rounds most numbers, and a number that is too large for a half becomes NaN.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

typedef int HvxVector __attribute__((__vector_size__(128)));
typedef int HvxPair __attribute__((__vector_size__(256)));
typedef uint16_t HvxHalves __attribute__((__vector_size__(128)));

namespace {
template <class To, class From>
To as(const From& from) {
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

double halfOf(uint16_t bits) {  // also of what is infinite or NaN elsewhere
  const int exponent = bits >> 10 & 31, digits = bits & 1023;
  const double size = exponent ? std::ldexp(1024 + digits, exponent - 25) : std::ldexp(digits, -24);
  return bits >> 15 ? -size : size;
}
int qfloatOf(double number) {
  if (number == 0) return 0;
  int exponent = std::ilogb(number);
  if (exponent > 128) exponent = 128;
  const double digits = std::floor(std::ldexp(number, 22 - exponent));
  return static_cast<int>(digits) << 8 | (exponent + 127 & 255);
}
double numberOf(int qfloat) { return std::ldexp(2 * (qfloat >> 8) + 1, (qfloat & 255) - 127 - 23); }
}  // namespace

inline HvxVector __builtin_HEXAGON_V6_lo_128B(HvxPair pair) { return as<HvxVector>(pair); }
inline HvxVector __builtin_HEXAGON_V6_hi_128B(HvxPair pair) {
  HvxVector high;
  std::memcpy(&high, reinterpret_cast<char*>(&pair) + 128, 128);
  return high;
}
inline HvxPair __builtin_HEXAGON_V6_vcombine_128B(HvxVector high, HvxVector low) {
  HvxPair pair;
  std::memcpy(&pair, &low, 128);
  std::memcpy(reinterpret_cast<char*>(&pair) + 128, &high, 128);
  return pair;
}
inline HvxPair __builtin_HEXAGON_V6_vshuffvdd_128B(HvxVector high, HvxVector low, int levels) {
  HvxPair pair = __builtin_HEXAGON_V6_vcombine_128B(high, low);
  auto* bytes = reinterpret_cast<uint8_t*>(&pair);
  for (int offset = 1; offset < 128; offset *= 2) {
    for (int k = 0; k < 128; ++k) {
      if (levels & offset && !(k & offset)) std::swap(bytes[128 + k], bytes[k + offset]);
    }
  }
  return pair;
}
inline HvxVector __builtin_HEXAGON_V6_vd0_128B() { return HvxVector{}; }
inline HvxVector __builtin_HEXAGON_V6_lvsplath_128B(int bits) {
  return as<HvxVector>(HvxHalves{} + static_cast<uint16_t>(bits));
}
inline HvxVector __builtin_HEXAGON_V6_vshuffh_128B(HvxVector from) {
  const HvxHalves in = as<HvxHalves>(from);
  HvxHalves out;
  for (int n = 0; n < 64; ++n) out[n] = in[n / 2 + n % 2 * 32];
  return as<HvxVector>(out);
}
inline HvxVector __builtin_HEXAGON_V6_vdealh_128B(HvxVector from) {
  const HvxHalves in = as<HvxHalves>(from);
  HvxHalves out;
  for (int n = 0; n < 64; ++n) out[n] = in[n % 32 * 2 + n / 32];
  return as<HvxVector>(out);
}
inline HvxVector __builtin_HEXAGON_V6_vpackoh_128B(HvxVector high, HvxVector low) {
  HvxHalves out;
  for (int n = 0; n < 64; ++n) out[n] = static_cast<uint16_t>((n < 32 ? low[n] : high[n - 32]) >> 16);
  return as<HvxVector>(out);
}
inline HvxPair __builtin_HEXAGON_V6_vmpy_qf32_hf_128B(HvxVector a, HvxVector b) {
  const HvxHalves x = as<HvxHalves>(a), y = as<HvxHalves>(b);
  HvxPair out;
  for (int n = 0; n < 64; ++n) out[n / 2 + n % 2 * 32] = qfloatOf(halfOf(x[n]) * halfOf(y[n]));
  return out;
}
inline HvxVector __builtin_HEXAGON_V6_vadd_qf32_mix_128B(HvxVector a, HvxVector b) {
  HvxVector out;
  for (int n = 0; n < 32; ++n) out[n] = qfloatOf(numberOf(a[n]) + as<float>(static_cast<int>(b[n])));
  return out;
}
inline HvxVector __builtin_HEXAGON_V6_vadd_sf_128B(HvxVector a, HvxVector b) {
  HvxVector out;
  for (int n = 0; n < 32; ++n) {
    const int bits = a[n];
    const bool isFinite = (bits & 0x7fffffff) < 0x7f800000;
    const double other = std::ldexp(bits < 0 ? -1.5 : 1.5, 128);
    out[n] = qfloatOf((isFinite ? as<float>(bits) : other) + as<float>(static_cast<int>(b[n])));
  }
  return out;
}
inline HvxVector __builtin_HEXAGON_V6_vconv_sf_qf32_128B(HvxVector from) {
  HvxVector out;
  for (int n = 0; n < 32; ++n) out[n] = as<int>(static_cast<float>(numberOf(from[n])));
  return out;
}
inline HvxVector __builtin_HEXAGON_V6_vconv_hf_qf32_128B(HvxPair from) {
  HvxHalves out;
  for (int n = 0; n < 64; ++n) {
    const double number = numberOf(from[n / 2 + n % 2 * 32]);
    out[n] = std::fabs(number) < 65520 ? as<uint16_t>(static_cast<_Float16>(number)) : 0x7fff;
  }
  return as<HvxVector>(out);
}
inline HvxPair __builtin_HEXAGON_V6_vcvt_sf_hf_128B(HvxVector from) {
  const HvxHalves in = as<HvxHalves>(from);
  HvxPair out;
  for (int n = 0; n < 64; ++n) out[n / 2 + n % 2 * 32] = as<int>(static_cast<float>(as<_Float16>(in[n])));
  return out;
}
inline HvxPair __builtin_HEXAGON_V6_vmpy_sf_hf_acc_128B(HvxPair sums, HvxVector a, HvxVector b) {
  const HvxHalves x = as<HvxHalves>(a), y = as<HvxHalves>(b);
  for (int n = 0; n < 64; ++n) {
    const int place = n / 2 + n % 2 * 32;
    const double product = static_cast<double>(as<_Float16>(x[n])) * static_cast<double>(as<_Float16>(y[n]));
    sums[place] = as<int>(static_cast<float>(as<float>(static_cast<int>(sums[place])) + product));
  }
  return sums;
}
inline HvxVector __builtin_HEXAGON_V6_vcvt_hf_sf_128B(HvxVector high, HvxVector low) {
  HvxHalves out;
  for (int n = 0; n < 64; ++n) {
    out[n] = as<uint16_t>(static_cast<_Float16>(as<float>(static_cast<int>(n % 2 ? high[n / 2] : low[n / 2]))));
  }
  return as<HvxVector>(out);
}
inline HvxPair __builtin_HEXAGON_V6_vmpy_sf_hf_128B(HvxVector a, HvxVector b) {
  return __builtin_HEXAGON_V6_vmpy_sf_hf_acc_128B(HvxPair{}, a, b);
}
