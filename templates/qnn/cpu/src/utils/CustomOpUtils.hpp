// Auto-generated part of every op package that udogen generates for the CPU backend; regenerating rewrites this file.
//
// The views through which a kernel sees its tensors: typed, named, without a copy and without the heap.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "BackendUtils.hpp"
#include "CPU/QnnCpuOpPackage.h"
#include "Quantization.hpp"

namespace udo {

using RawTensor = QnnCpuOpPackage_Tensor_t;

/// What validation saw of a tensor, and the runtime does not tell when the op is made.
struct TensorFacts {
  bool omitted = false;    // an optional tensor that the client left out
  bool quantized = false;  // fixed point: quantizeParams hold something
};

/// The dimensions of a tensor.
class Shape {
 public:
  Shape(const std::uint32_t* dims, std::size_t rank) : dims_(dims), rank_(rank) {}

  std::size_t rank() const { return rank_; }
  std::uint32_t operator[](std::size_t axis) const { return dims_[axis]; }
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
  const std::uint32_t* dims_;
  std::size_t rank_;
};

/// The whole number of type T that is nearest to a real number.
template <class T>
T nearest(float real) {
  const double whole = std::nearbyint(static_cast<double>(real));
  if (!(whole > static_cast<double>(std::numeric_limits<T>::min()))) return std::numeric_limits<T>::min();
  return whole < static_cast<double>(std::numeric_limits<T>::max()) ? static_cast<T>(whole)
                                                                   : std::numeric_limits<T>::max();
}

/// What every view can do, whatever its element type.
class View {
 public:
  View() = default;
  View(const RawTensor* raw, bool quantized) : raw_(raw), quantized_(quantized) {}

  /// False for an optional tensor that the client left out.
  explicit operator bool() const { return raw_ != nullptr; }

  Shape shape() const { return Shape(raw_->currentDimensions, raw_->rank); }
  std::size_t size() const { return shape().count(); }

  /// Scale and offset of a fixed-point tensor; scale 1 and offset 0 for every other one.
  Quantization quantization() const {
    // The runtime leaves quantizeParams of other tensors uninitialised: they must not be read.
    if (!quantized_ || raw_->quantizeParams.quantizationEncoding != QNN_QUANTIZATION_ENCODING_SCALE_OFFSET) {
      return Quantization{};
    }
    const Qnn_ScaleOffset_t& encoding = raw_->quantizeParams.scaleOffsetEncoding;
    return Quantization{encoding.scale, encoding.offset};
  }

 protected:
  const RawTensor* raw_ = nullptr;
  bool quantized_ = false;
};

/// An input (or a parameter) whose elements are of type T.
template <class T>
class Input : public View {
 public:
  using View::View;
  const T* data() const { return static_cast<const T*>(raw_->data); }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size(); }
  const T& operator[](std::size_t index) const { return data()[index]; }

  /// One element as a real number; fixed point is dequantized.
  float real(std::size_t index) const {
    if constexpr (sizeof(T) <= 2 && !std::is_floating_point_v<T>) {
      return quantization().toReal(static_cast<std::int32_t>(data()[index]));
    } else {
      return static_cast<float>(data()[index]);
    }
  }
};

/// An output whose elements are of type T.
template <class T>
class Output : public View {
 public:
  using View::View;
  T* data() const { return static_cast<T*>(raw_->data); }
  T* begin() const { return data(); }
  T* end() const { return data() + size(); }
  T& operator[](std::size_t index) const { return data()[index]; }

  /// Writes one element from a real number; rounds and saturates where T is no float.
  void setReal(std::size_t index, float real) const {
    if constexpr (std::is_floating_point_v<T>) {
      data()[index] = static_cast<T>(real);
    } else if constexpr (sizeof(T) <= 2) {
      using Limits = std::numeric_limits<T>;
      data()[index] = static_cast<T>(quantization().toStored(real, Limits::min(), Limits::max()));
    } else {
      data()[index] = nearest<T>(real);
    }
  }
};

/// What the views of several types share: the type is known only when the op runs.
class AnyView : public View {
 public:
  using View::View;

  bool isFloat() const { return raw_->dataType == QNN_CPU_DATATYPE_FLOAT_32; }
  bool isInt32() const { return raw_->dataType == QNN_CPU_DATATYPE_INT_32; }
  bool isUint32() const { return raw_->dataType == QNN_CPU_DATATYPE_UINT_32; }
  bool isUint8() const { return raw_->dataType == QNN_CPU_DATATYPE_UINT_8; }  // also fixed point of 8 bits
  bool isFixedPoint() const { return quantized_; }
  bool isInt8() const { return raw_->dataType == QNN_CPU_DATATYPE_INT_8; }
  bool isBool() const { return raw_->dataType == QNN_CPU_DATATYPE_BOOL_8; }

 protected:
  template <class T>
  T* as() const {
    return static_cast<T*>(raw_->data);
  }
};

/// An input that may be of several types.
class AnyInput : public AnyView {
 public:
  using AnyView::AnyView;

  /// The elements, where they are of type T; ask `isFloat()` and its like first.
  template <class T>
  const T* data() const {
    return as<const T>();
  }

  /// One element as a real number, whatever its type; fixed point is dequantized.
  float real(std::size_t index) const {
    if (isFloat()) return as<const float>()[index];
    if (isInt32()) return static_cast<float>(as<const std::int32_t>()[index]);
    if (isUint32()) return static_cast<float>(as<const std::uint32_t>()[index]);
    if (isInt8()) return static_cast<float>(as<const std::int8_t>()[index]);
    if (isBool()) return as<const std::uint8_t>()[index] != 0 ? 1.0f : 0.0f;
    return quantization().toReal(as<const std::uint8_t>()[index]);
  }
};

/// An output that may be of several types.
class AnyOutput : public AnyView {
 public:
  using AnyView::AnyView;

  /// The elements, where they are of type T; ask `isFloat()` and its like first.
  template <class T>
  T* data() const {
    return as<T>();
  }

  /// Writes one element from a real number, whatever the type; rounds and saturates.
  void setReal(std::size_t index, float real) const {
    if (isFloat()) {
      as<float>()[index] = real;
    } else if (isInt32()) {
      as<std::int32_t>()[index] = nearest<std::int32_t>(real);
    } else if (isUint32()) {
      as<std::uint32_t>()[index] = nearest<std::uint32_t>(real);
    } else if (isInt8()) {
      as<std::int8_t>()[index] = nearest<std::int8_t>(real);
    } else if (isBool()) {
      as<std::uint8_t>()[index] = real != 0.0f ? 1 : 0;
    } else {
      as<std::uint8_t>()[index] = static_cast<std::uint8_t>(quantization().toStored(real, 0, 255));
    }
  }
};

/// Inputs or outputs of unknown number.
template <class V>
class Repeated {
 public:
  Repeated() = default;
  Repeated(RawTensor* const* first, const TensorFacts* facts, std::size_t count)
      : first_(first), facts_(facts), count_(count) {}
  std::size_t size() const { return count_; }
  V operator[](std::size_t index) const { return V(first_[index], facts_[index].quantized); }

 private:
  RawTensor* const* first_ = nullptr;
  const TensorFacts* facts_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace udo
