// Elements of tensors as numbers, whatever type stores them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "QnnTypes.h"

namespace emulator {

/// What the elements of a data type are; a set of them is a mask.
enum Family : unsigned { noFamily = 0, floats = 1, fixedPoint = 2, integers = 4, truths = 8 };
Family familyOf(Qnn_DataType_t type);

/// How a tensor is stored: its type, shape and quantization.
class Format {
 public:
  Format() = default;
  explicit Format(const Qnn_Tensor_t& tensor);

  Qnn_DataType_t type() const { return type_; }
  Family family() const { return familyOf(type_); }
  const std::vector<std::uint32_t>& dims() const { return dims_; }
  std::size_t elements() const { return elements_; }
  std::size_t width() const { return width_; }  // bytes of an element
  std::size_t bytes() const { return elements_ * width_; }
  /// False for fixed point that is quantized in a way that is not computed with here, or not at all.
  bool isKnown() const { return family() != fixedPoint || !pairs_.empty(); }
  bool hasOnePair() const { return pairs_.size() == 1; }
  /// True where equal bytes mean equal numbers.
  bool storesLike(const Format& other) const;

  /// Real values: fixed point is (stored + offset) * scale.
  std::vector<double> real(const void* data) const;
  /// The other way: rounded half away from zero and saturated, as libQnnCpu does it; not a number becomes zero.
  void setReal(const std::vector<double>& values, void* data) const;

  /// Stored integers.
  std::vector<std::int64_t> whole(const void* data) const;
  /// The other way: what does not fit wraps around.
  void setWhole(const std::vector<std::int64_t>& values, void* data) const;

 private:
  const Qnn_ScaleOffset_t& pairAt(std::size_t element) const;

  Qnn_DataType_t type_ = QNN_DATATYPE_UNDEFINED;
  std::vector<std::uint32_t> dims_;
  std::size_t elements_ = 1, width_ = 0;
  std::vector<Qnn_ScaleOffset_t> pairs_;  // one, or one for each index along the axis
  std::size_t below_ = 1;                 // elements for each of these indices
};

float floatOfHalf(std::uint16_t half);
std::uint16_t halfOfFloat(float value);

}  // namespace emulator
