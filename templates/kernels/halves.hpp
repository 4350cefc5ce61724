// For the C++ that Halide makes of a kernel: half floats are stored as their bits, and calculated as floats of HVX.

struct float16_t : udo::Half {
  using udo::Half::Half;
  float16_t() = default;
  float16_t(uint16_t element) { bits = element; }
  __attribute__((noinline, pure)) operator float() const { return udo::Half::operator float(); }
};

#pragma clang attribute push(__attribute__((always_inline)), apply_to = function)
namespace {
typedef int Register __attribute__((__vector_size__(128)));
typedef NativeVector<int32_t, 32> Words;
typedef NativeVector<uint16_t, 64> Halves;

template <class To, class From>
To bits(const From& from) {
  To to;
  std::memcpy(&to, &from, sizeof to < sizeof from ? sizeof to : sizeof from);
  return to;
}

#if __HVX_ARCH__ >= 79
// IEEE floats.
template <bool IsExact>
void widen(Halves from, Words* to) {
  const auto pair = __builtin_HEXAGON_V6_vcvt_sf_hf_128B(__builtin_HEXAGON_V6_vshuffh_128B(bits<Register>(from)));
  to[0] = bits<Words>(__builtin_HEXAGON_V6_lo_128B(pair));
  to[1] = bits<Words>(__builtin_HEXAGON_V6_hi_128B(pair));
}

Halves narrow(const Words* from) {
  const auto mixed = __builtin_HEXAGON_V6_vcvt_hf_sf_128B(bits<Register>(from[1]), bits<Register>(from[0]));
  return bits<Halves>(__builtin_HEXAGON_V6_vdealh_128B(mixed));
}

void products(Register a, Register b, Words* to) {
  const auto pair = __builtin_HEXAGON_V6_vmpy_sf_hf_128B(a, b);
  to[0] = bits<Words>(__builtin_HEXAGON_V6_lo_128B(pair));
  to[1] = bits<Words>(__builtin_HEXAGON_V6_hi_128B(pair));
}

void addProducts(Register a, Register b, Words* sums) {
  const auto pair = __builtin_HEXAGON_V6_vcombine_128B(bits<Register>(sums[1]), bits<Register>(sums[0]));
  const auto sum = __builtin_HEXAGON_V6_vmpy_sf_hf_acc_128B(pair, a, b);
  sums[0] = bits<Words>(__builtin_HEXAGON_V6_lo_128B(sum));
  sums[1] = bits<Words>(__builtin_HEXAGON_V6_hi_128B(sum));
}
#else
// Qfloat has no infinities and no NaN, and its last bit is always set.
template <bool IsExact>
void widen(Halves from, Words* to) {
  const auto one = __builtin_HEXAGON_V6_lvsplath_128B(0x3c00);
  const auto pair = __builtin_HEXAGON_V6_vmpy_qf32_hf_128B(__builtin_HEXAGON_V6_vshuffh_128B(bits<Register>(from)), one);
  to[0] = bits<Words>(__builtin_HEXAGON_V6_vconv_sf_qf32_128B(__builtin_HEXAGON_V6_lo_128B(pair)));
  to[1] = bits<Words>(__builtin_HEXAGON_V6_vconv_sf_qf32_128B(__builtin_HEXAGON_V6_hi_128B(pair)));
  for (int part = 0; IsExact && part < 2; ++part) {
    const Words exact = (to[part] + 0x1000) & ~0x1fff;
    to[part] = (exact & 0x7fffffff) > 0x477fffff ? exact + 0x38000000 : exact;
  }
}

void products(Register a, Register b, Words* to) {
  const auto pair = __builtin_HEXAGON_V6_vmpy_qf32_hf_128B(a, b);
  to[0] = bits<Words>(__builtin_HEXAGON_V6_vconv_sf_qf32_128B(__builtin_HEXAGON_V6_lo_128B(pair)));
  to[1] = bits<Words>(__builtin_HEXAGON_V6_vconv_sf_qf32_128B(__builtin_HEXAGON_V6_hi_128B(pair)));
}

void addProducts(Register a, Register b, Words* sums) {
  const auto pair = __builtin_HEXAGON_V6_vmpy_qf32_hf_128B(a, b);
  const Register parts[] = {__builtin_HEXAGON_V6_lo_128B(pair), __builtin_HEXAGON_V6_hi_128B(pair)};
  for (int part = 0; part < 2; ++part) {
    const auto sum = __builtin_HEXAGON_V6_vadd_qf32_mix_128B(parts[part], bits<Register>(sums[part]));
    sums[part] = bits<Words>(__builtin_HEXAGON_V6_vconv_sf_qf32_128B(sum));
  }
}

Halves narrow(const Words* from) {
  const auto zero = __builtin_HEXAGON_V6_vd0_128B();
  const auto low = bits<Register>(from[0]), high = bits<Register>(from[1]);
  const auto pair = __builtin_HEXAGON_V6_vcombine_128B(
      __builtin_HEXAGON_V6_vadd_sf_128B(high, zero), __builtin_HEXAGON_V6_vadd_sf_128B(low, zero));
  const auto mixed = __builtin_HEXAGON_V6_vconv_hf_qf32_128B(pair);
  const auto usual = bits<NativeVector<int16_t, 64>>(__builtin_HEXAGON_V6_vdealh_128B(mixed));
  const auto upper = bits<NativeVector<int16_t, 64>>(__builtin_HEXAGON_V6_vpackoh_128B(high, low));
  const auto size = upper & 0x7fff;
  const auto none = ((size > 0x7f80) & int16_t(0x200)) | int16_t(0x7c00);
  return bits<Halves>(size > 0x477f ? none | (upper & int16_t(0x8000)) : usual);
}
#endif

/// Floats; those that are multiplied and added need not be exact.
template <class To, int Lanes, bool IsExact = true>
To fromHalves(NativeVector<uint16_t, Lanes> from) {
  constexpr int count = (Lanes + 63) / 64;
  Words to[2 * count];
  Halves parts[count];
  std::memcpy(parts, &from, sizeof from);
  for (int n = 0; n < count; ++n) widen<IsExact>(parts[n], to + 2 * n);
  return __builtin_convertvector((bits<NativeVector<float, Lanes>>(to)), To);
}

template <class From, int Lanes>
NativeVector<uint16_t, Lanes> toHalves(From from) {
  constexpr int count = (Lanes + 63) / 64;
  Words parts[2 * count];
  Halves to[count];
  const auto floats = __builtin_convertvector(from, NativeVector<float, Lanes>);
  std::memcpy(parts, &floats, sizeof floats);
  for (int n = 0; n < count; ++n) to[n] = narrow(parts + 2 * n);
  return bits<NativeVector<uint16_t, Lanes>>(to);
}

template <bool IsOrdered>
Register factor(float16_t from, int) {
  return __builtin_HEXAGON_V6_lvsplath_128B(from.bits);
}

template <bool IsOrdered, int Lanes>
Register factor(NativeVector<uint16_t, Lanes> from, int part) {
  Halves parts[(Lanes + 63) / 64];
  std::memcpy(parts, &from, sizeof from);
  const auto found = bits<Register>(parts[part]);
  return IsOrdered ? __builtin_HEXAGON_V6_vshuffh_128B(found) : found;
}

/// Sums of floats, and the products of half floats, of which `b` may be one number.
template <class Sums, bool IsOrdered = true, int Lanes, class Other>
Sums addProducts(Sums sums, NativeVector<uint16_t, Lanes> a, Other b) {
  constexpr int count = (Lanes + 63) / 64;
  Words parts[2 * count];
  std::memcpy(parts, &sums, sizeof sums);
  for (int n = 0; n < count; ++n) addProducts(factor<IsOrdered>(a, n), factor<IsOrdered>(b, n), parts + 2 * n);
  return bits<Sums>(parts);
}

/// Products of half floats, in any order.
template <class Floats, int Lanes>
Floats products(NativeVector<uint16_t, Lanes> a, NativeVector<uint16_t, Lanes> b) {
  constexpr int count = (Lanes + 63) / 64;
  Words parts[2 * count];
  for (int n = 0; n < count; ++n) products(factor<false>(a, n), factor<false>(b, n), parts + 2 * n);
  return bits<Floats>(parts);
}

/// How many vectors are interleaved by these indices; 0 if that is not what they do.
template <int... Indices>
constexpr int interleaved() {
  constexpr int at[] = {Indices...}, count = sizeof...(Indices), part = count > 1 ? at[1] : 0;
  if (part < 2 || count % part) return 0;
  for (int n = 0; n < count; ++n) {
    if (at[n] != n % (count / part) * part + n / (count / part)) return 0;
  }
  return count / part;
}

/// Clang makes vector instructions of these; of Halide's loops it makes single numbers.
template <class Element, size_t Lanes>
struct Ops : NativeVectorOps<Element, Lanes> {
  using Usual = NativeVectorOps<Element, Lanes>;
  using Vec = typename Usual::Vec;

  static Vec select(typename Usual::Mask mask, Vec a, Vec b) {
    const auto chosen = __builtin_convertvector(mask, decltype(a < b));
    return chosen != 0 ? a : b;
  }
  static Vec max(Vec a, Vec b) { return a > b ? a : b; }
  static Vec min(Vec a, Vec b) { return a < b ? a : b; }

  // One instruction of HVX interleaves two vectors; Clang makes many.
  template <int... Indices, class From>
  static Vec shuffle(From from) {
    constexpr int lanes = sizeof(Register) / sizeof(Element), count = Lanes / lanes, many = interleaved<Indices...>();
    constexpr bool isWhole = many && Lanes % (many * lanes) == 0 && sizeof from == sizeof(Vec);
    if constexpr (isWhole && (many & (many - 1)) == 0) {
      Register parts[count], to[count];
      std::memcpy(parts, &from, sizeof from);
      for (int width = count / many; width < count; width *= 2) {
        for (int n = 0; n < count / 2; ++n) {
          const auto pair = __builtin_HEXAGON_V6_vshuffvdd_128B(parts[n + count / 2], parts[n], -int(sizeof(Element)));
          const int at = n / width * 2 * width + n % width * 2;
          to[at] = __builtin_HEXAGON_V6_lo_128B(pair);
          to[at + 1] = __builtin_HEXAGON_V6_hi_128B(pair);
        }
        std::memcpy(parts, to, sizeof to);
      }
      return bits<Vec>(parts);
    } else {
      return Usual::template shuffle<Indices...>(from);
    }
  }
};
}  // namespace
#pragma clang attribute pop
