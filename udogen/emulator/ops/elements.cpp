#include "elements.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "tensor.hpp"

namespace emulator {
namespace {

template <class T>
T read(const void* data, std::size_t at) {
  T value;
  std::memcpy(&value, static_cast<const unsigned char*>(data) + at * sizeof(T), sizeof value);
  return value;
}

template <class T>
void write(T value, void* data, std::size_t at) {
  std::memcpy(static_cast<unsigned char*>(data) + at * sizeof(T), &value, sizeof value);
}

bool isSigned(Qnn_DataType_t type) { return (type & 0xff00) == 0x0000 || (type & 0xff00) == 0x0300; }

std::int64_t saturated(double value, bool hasSign, std::size_t width) {
  const double span = std::ldexp(1.0, static_cast<int>(8 * width) - (hasSign ? 1 : 0));
  const double least = hasSign ? -span : 0.0;
  if (!(value > least)) return static_cast<std::int64_t>(least);
  return static_cast<std::int64_t>(value < span - 1 ? value : span - 1);
}

}  // namespace

Family familyOf(Qnn_DataType_t type) {
  const auto code = static_cast<std::uint32_t>(type);
  if ((bitsOf(type) & 7) != 0 || bitsOf(type) == 0 || code == QNN_DATATYPE_BFLOAT_16) return noFamily;
  switch (code >> 8) {
    case 0:
    case 1: return integers;
    case 2: return floats;
    case 3:
    case 4: return fixedPoint;
    case 5: return truths;
    default: return noFamily;
  }
}

float floatOfHalf(std::uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int mantissa = half & 1023;
  const float sign = (half & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 31) {
    return mantissa != 0 ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

std::uint16_t halfOfFloat(float value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00);
  const float size = std::fabs(value);
  if (size >= 65520.0f) return static_cast<std::uint16_t>(sign | 0x7c00);
  if (size == 0.0f) return sign;
  int exponent = 0;
  std::frexp(size, &exponent);
  const int step = (exponent < -13 ? -13 : exponent) - 11;  // of the last place; below, numbers are subnormal
  // nearbyint rounds half to even; a carry into the next exponent comes out right in the sum.
  const auto places = static_cast<int>(std::nearbyint(std::ldexp(size, -step)));
  return static_cast<std::uint16_t>(sign | (((step + 24) << 10) + places));
}

Format::Format(const Qnn_Tensor_t& tensor) {
  const Qnn_TensorV1_t& given = common(tensor);
  type_ = given.dataType;
  if (given.rank != 0) dims_.assign(given.dimensions, given.dimensions + given.rank);
  for (const std::uint32_t each : dims_) elements_ *= each;
  width_ = bitsOf(type_) / 8;
  const Qnn_QuantizeParams_t& params = given.quantizeParams;
  if (family() != fixedPoint || params.encodingDefinition != QNN_DEFINITION_DEFINED) return;
  switch (params.quantizationEncoding) {
    case QNN_QUANTIZATION_ENCODING_SCALE_OFFSET: pairs_ = {params.scaleOffsetEncoding}; break;
    case QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET:
      pairs_ = {{params.bwScaleOffsetEncoding.scale, params.bwScaleOffsetEncoding.offset}};
      break;
    case QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET: {
      const Qnn_AxisScaleOffset_t& axis = params.axisScaleOffsetEncoding;
      const auto rank = static_cast<std::int32_t>(dims_.size());
      if (axis.axis < 0 || axis.axis >= rank || axis.numScaleOffsets != dims_[static_cast<std::size_t>(axis.axis)]) break;
      pairs_.assign(axis.scaleOffset, axis.scaleOffset + axis.numScaleOffsets);
      for (std::int32_t i = axis.axis + 1; i < rank; ++i) below_ *= dims_[static_cast<std::size_t>(i)];
      break;
    }
    default: break;
  }
}

const Qnn_ScaleOffset_t& Format::pairAt(std::size_t element) const {
  return pairs_.size() == 1 ? pairs_.front() : pairs_[element / below_ % pairs_.size()];
}

bool Format::storesLike(const Format& other) const {
  if (type_ != other.type_ || pairs_.size() != other.pairs_.size() || below_ != other.below_) return false;
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    if (pairs_[i].scale != other.pairs_[i].scale || pairs_[i].offset != other.pairs_[i].offset) return false;
  }
  return true;
}

std::vector<std::int64_t> Format::whole(const void* data) const {
  std::vector<std::int64_t> values(elements_);
  const bool hasSign = isSigned(type_);
  for (std::size_t i = 0; i < elements_; ++i) {
    switch (width_) {
      case 1: values[i] = hasSign ? read<std::int8_t>(data, i) : read<std::uint8_t>(data, i); break;
      case 2: values[i] = hasSign ? read<std::int16_t>(data, i) : read<std::uint16_t>(data, i); break;
      case 4: values[i] = hasSign ? read<std::int32_t>(data, i) : static_cast<std::int64_t>(read<std::uint32_t>(data, i)); break;
      default: values[i] = read<std::int64_t>(data, i);
    }
  }
  return values;
}

void Format::setWhole(const std::vector<std::int64_t>& values, void* data) const {
  for (std::size_t i = 0; i < elements_; ++i) {
    const auto value = static_cast<std::uint64_t>(values[i]);
    switch (width_) {
      case 1: write(static_cast<std::uint8_t>(value), data, i); break;
      case 2: write(static_cast<std::uint16_t>(value), data, i); break;
      case 4: write(static_cast<std::uint32_t>(value), data, i); break;
      default: write(value, data, i);
    }
  }
}

std::vector<double> Format::real(const void* data) const {
  std::vector<double> values(elements_);
  if (family() == floats) {
    for (std::size_t i = 0; i < elements_; ++i) {
      if (width_ == 2) values[i] = static_cast<double>(floatOfHalf(read<std::uint16_t>(data, i)));
      if (width_ == 4) values[i] = static_cast<double>(read<float>(data, i));
      if (width_ == 8) values[i] = read<double>(data, i);
    }
    return values;
  }
  const std::vector<std::int64_t> stored = whole(data);
  for (std::size_t i = 0; i < elements_; ++i) {
    values[i] = static_cast<double>(stored[i]);
    if (family() != fixedPoint) continue;
    const Qnn_ScaleOffset_t& pair = pairAt(i);
    values[i] = (values[i] + pair.offset) * static_cast<double>(pair.scale);
  }
  return values;
}

void Format::setReal(const std::vector<double>& values, void* data) const {
  if (family() == floats) {
    for (std::size_t i = 0; i < elements_; ++i) {
      if (width_ == 2) write(halfOfFloat(static_cast<float>(values[i])), data, i);
      if (width_ == 4) write(static_cast<float>(values[i]), data, i);
      if (width_ == 8) write(values[i], data, i);
    }
    return;
  }
  std::vector<std::int64_t> stored(elements_);
  for (std::size_t i = 0; i < elements_; ++i) {
    double value = std::isnan(values[i]) ? 0.0 : values[i];
    if (family() == fixedPoint) {
      const Qnn_ScaleOffset_t& pair = pairAt(i);
      // Divided as floats, as libQnnCpu does it: what lies half between two steps must round the same way.
      value = std::round(static_cast<double>(static_cast<float>(value) / pair.scale)) - pair.offset;
    }
    stored[i] = saturated(value, isSigned(type_), width_);
  }
  setWhole(stored, data);
}

}  // namespace emulator
