// Elements, dimensions and quantization of tensors, the same on every backend.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <type_traits>

namespace udo {

/// How one element is stored.
enum class Element : unsigned char {
  other, float32, half, int8, uint8, boolean, int16, uint16, int32, uint32, fixed32, int64
};

/// A float of 16 bits: storage only; `float(half)` and `Half(x)` convert, rounding to nearest even.
struct Half {
  std::uint16_t bits = 0;

  Half() = default;
  explicit Half(float value) {
    std::uint32_t f;
    std::memcpy(&f, &value, sizeof f);
    const std::uint32_t sign = (f >> 16) & 0x8000u;
    f &= 0x7fffffffu;
    if (f >= 0x47800000u) {  // too large, infinite, or NaN
      bits = static_cast<std::uint16_t>(sign | (f > 0x7f800000u ? 0x7e00u : 0x7c00u));
    } else if (f < 0x38800000u) {  // subnormal
      float magnitude;
      std::memcpy(&magnitude, &f, sizeof f);
      magnitude += 0.5f;  // its last bits are now those of the result, rounded by the addition
      std::memcpy(&f, &magnitude, sizeof f);
      bits = static_cast<std::uint16_t>(sign | (f - 0x3f000000u));
    } else {
      const std::uint32_t rounded = f + 0xfffu + ((f >> 13) & 1u);
      bits = static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
    }
  }

  explicit operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const std::uint32_t rest = bits & 0x7fffu;
    std::uint32_t f;
    if (rest >= 0x7c00u) {
      f = sign | 0x7f800000u | (rest & 0x3ffu) << 13;
    } else if (rest >= 0x400u) {
      f = sign | ((rest << 13) + 0x38000000u);
    } else {
      const float magnitude = static_cast<float>(rest) * 5.9604644775390625e-8f;  // 2^-24
      std::memcpy(&f, &magnitude, sizeof f);
      f |= sign;
    }
    float value;
    std::memcpy(&value, &f, sizeof f);
    return value;
  }
};

/// The dimensions of a tensor.
class Shape {
 public:
  static constexpr std::size_t mostAxes = 8;

  Shape() = default;
  Shape(std::initializer_list<std::uint32_t> dims) : Shape(dims.begin(), dims.size()) {}
  Shape(const std::uint32_t* dims, std::size_t rank) : rank_(rank < mostAxes ? rank : mostAxes) {
    for (std::size_t axis = 0; axis < rank_; ++axis) dims_[axis] = dims[axis];
  }

  std::size_t rank() const { return rank_; }
  std::uint32_t operator[](std::size_t axis) const { return dims_[axis]; }
  std::uint32_t& operator[](std::size_t axis) { return dims_[axis]; }
  const std::uint32_t* begin() const { return dims_; }
  const std::uint32_t* end() const { return dims_ + rank_; }

  /// The number of elements of the axes `first` … `last - 1`; of all of them without arguments.
  std::size_t count(std::size_t first, std::size_t last) const {
    std::size_t product = 1;
    for (std::size_t axis = first; axis < last; ++axis) product *= dims_[axis];
    return product;
  }
  std::size_t count() const { return count(0, rank_); }

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (std::size_t axis = 0; axis < a.rank_; ++axis) {
      if (a.dims_[axis] != b.dims_[axis]) return false;
    }
    return true;
  }
  friend bool operator!=(const Shape& a, const Shape& b) { return !(a == b); }

 private:
  std::size_t rank_ = 0;
  std::uint32_t dims_[mostAxes] = {};
};

/// real value = scale * (stored value + offset)
struct Quantization {
  float scale = 1.0f;
  std::int32_t offset = 0;

  float toReal(std::int32_t stored) const { return scale * static_cast<float>(stored + offset); }

  /// The nearest stored value between `low` and `high`.
  std::int32_t toStored(float real, std::int32_t low, std::int32_t high) const {
    const float stored = std::nearbyint(real / scale) - static_cast<float>(offset);
    if (!(stored > static_cast<float>(low))) return low;  // also for NaN
    if (stored >= static_cast<float>(high)) return high;
    return static_cast<std::int32_t>(stored);
  }
};

/// A number as a T; for integers it is truncated and saturates, and NaN becomes zero.
template <class T, class From>
T fromNumber(From value) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(fromNumber<std::underlying_type_t<T>>(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value != From{};
  } else if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, From>) {
    return static_cast<T>(value);
  } else {
    using Limits = std::numeric_limits<T>;
    const auto real = static_cast<long double>(value);
    if (!(real > static_cast<long double>(Limits::min()))) return std::isnan(real) ? T{} : Limits::min();
    return real < static_cast<long double>(Limits::max()) ? static_cast<T>(value) : Limits::max();
  }
}

/// The integer of type T that is nearest to a real number.
template <class T>
T nearest(float real) {
  const double whole = std::nearbyint(static_cast<double>(real));
  if (!(whole > static_cast<double>(std::numeric_limits<T>::min()))) return std::numeric_limits<T>::min();
  return whole < static_cast<double>(std::numeric_limits<T>::max()) ? static_cast<T>(whole)
                                                                   : std::numeric_limits<T>::max();
}

}  // namespace udo
