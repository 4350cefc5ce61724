// Auto-generated part of every op package that udogen generates for the HTP backend; regenerating rewrites this file.
//
// The views through which a kernel sees its tensors: typed, named, without a copy and without the heap.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "BackendUtils.hpp"
#include "HTP/core/qhpi.h"
#include "Quantization.hpp"

namespace udo {

/// A float of 16 bits: storage only; `float(half)` and `Half(x)` convert, rounding to nearest even.
struct Half {
  std::uint16_t bits = 0;

  Half() = default;
  explicit Half(float value) {
    std::uint32_t f;
    std::memcpy(&f, &value, sizeof f);
    const std::uint32_t sign = (f >> 16) & 0x8000u;
    f &= 0x7fffffffu;
    if (f >= 0x47800000u) {  // too large, infinite, or no number
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

/// The dimensions of a tensor as HTP has them: ranks below 4 are filled with ones in front.
class Shape {
 public:
  Shape() = default;
  explicit Shape(const QHPI_Shape& shape) : shape_(shape) {}
  Shape(std::initializer_list<std::uint32_t> dims) {
    for (const std::uint32_t extent : dims) {
      if (shape_.rank < QHPI_MAX_RANK) shape_.dims[shape_.rank++] = extent;
    }
  }

  std::size_t rank() const { return shape_.rank; }
  std::uint32_t operator[](std::size_t axis) const { return shape_.dims[axis]; }
  std::uint32_t& operator[](std::size_t axis) { return shape_.dims[axis]; }
  const std::uint32_t* begin() const { return shape_.dims; }
  const std::uint32_t* end() const { return shape_.dims + shape_.rank; }

  /// The number of elements of the axes `first` … `last - 1`; of all of them without arguments.
  std::size_t count(std::size_t first, std::size_t last) const {
    std::size_t product = 1;
    for (std::size_t axis = first; axis < last; ++axis) product *= shape_.dims[axis];
    return product;
  }
  std::size_t count() const { return count(0, shape_.rank); }

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank() != b.rank()) return false;
    for (std::size_t axis = 0; axis < a.rank(); ++axis) {
      if (a[axis] != b[axis]) return false;
    }
    return true;
  }
  friend bool operator!=(const Shape& a, const Shape& b) { return !(a == b); }

  const QHPI_Shape& raw() const { return shape_; }

 private:
  QHPI_Shape shape_ = {};
};

/// What every view can do, whatever its element type.
class View {
 public:
  View() = default;
  explicit View(const QHPI_Tensor* tensor)
      : tensor_(tensor),
        data_(qhpi_tensor_raw_data(tensor)),
        shape_(qhpi_tensor_shape(tensor)),
        type_(qhpi_tensor_type(tensor)) {
    const QHPI_Quant_Parameters params = qhpi_tensor_quant_parameters(tensor);
    quantization_ = Quantization{params.stepsize, -params.zero_offset};
  }

  /// The view of a default that lives in a table, as HTP would deliver it.
  View(const void* data, const QHPI_Shape& shape, QHPI_Element_Type type, std::int32_t zeroOffset = 0)
      : data_(const_cast<void*>(data)), shape_(shape), quantization_{1.0f, -zeroOffset}, type_(type) {}

  /// False for an optional tensor that the client left out.
  explicit operator bool() const { return tensor_ != nullptr || data_ != nullptr; }

  const Shape& shape() const { return shape_; }
  std::size_t size() const { return shape_.count(); }

  /// Scale and offset; 1 and 0 where the type is not quantized.  Signed types of 8 and 16 bits arrive as
  /// unsigned ones with an offset.
  Quantization quantization() const { return quantization_; }

  /// True where the tensor lies in TCM.
  bool inTcm() const { return tensor_ != nullptr && qhpi_tensor_placement(tensor_) == QHPI_MemLoc_TCM_Only; }

  /// A tensor that is not flat lies in blocks of this shape; the extents are 0 where there are none.
  Shape blockShape() const { return tensor_ != nullptr ? Shape(qhpi_tensor_block_shape(tensor_)) : Shape(); }
  std::size_t blockCount() const { return tensor_ != nullptr ? qhpi_tensor_block_table_length(tensor_) : 0; }

  /// The shape with what the layout fills up, and what is filled up in front.
  Shape paddedShape() const { return tensor_ != nullptr ? Shape(qhpi_tensor_padded_shape(tensor_)) : shape_; }
  Shape padding() const { return tensor_ != nullptr ? Shape(qhpi_tensor_padding(tensor_)) : Shape(); }

 protected:
  void* blockAt(std::size_t index) const { return qhpi_tensor_block_table(tensor_)[index]; }

  const QHPI_Tensor* tensor_ = nullptr;
  void* data_ = nullptr;
  Shape shape_;
  Quantization quantization_;
  QHPI_Element_Type type_ = QHPI_UNKNOWN;
};

/// An input (or a tensor parameter) whose elements are of type T.
template <class T>
class Input : public View {
 public:
  using View::View;
  const T* data() const { return static_cast<const T*>(data_); }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size(); }
  const T& operator[](std::size_t index) const { return data()[index]; }

  /// The elements of one block of a tensor in blocks.
  const T* block(std::size_t index) const { return static_cast<const T*>(blockAt(index)); }
};

/// An output whose elements are of type T.
template <class T>
class Output : public View {
 public:
  using View::View;
  T* data() const { return static_cast<T*>(data_); }
  T* begin() const { return data(); }
  T* end() const { return data() + size(); }
  T& operator[](std::size_t index) const { return data()[index]; }

  /// The elements of one block of a tensor in blocks.
  T* block(std::size_t index) const { return static_cast<T*>(blockAt(index)); }
};

/// What the views of several types share: the type is known only when the op runs.
class AnyView : public View {
 public:
  using View::View;

  bool isFloat() const { return type_ == QHPI_Float32; }
  bool isHalf() const { return type_ == QHPI_Float16; }
  bool isInt32() const { return type_ == QHPI_Int32 || type_ == QHPI_QInt32; }
  bool isUint8() const { return type_ == QHPI_QUInt8; }    // all types of 8 bits
  bool isUint16() const { return type_ == QHPI_QUInt16; }  // all types of 16 bits but floats
};

/// An input that may be of several types.
class AnyInput : public AnyView {
 public:
  using AnyView::AnyView;

  /// The elements, where they are of type T; ask `isFloat()` and its like first.
  template <class T>
  const T* data() const {
    return static_cast<const T*>(data_);
  }

  /// One element as a real number, whatever its type; fixed point is dequantized.
  float real(std::size_t index) const {
    if (isFloat()) return data<float>()[index];
    if (isHalf()) return static_cast<float>(data<Half>()[index]);
    if (isUint8()) return quantization().toReal(data<std::uint8_t>()[index]);
    if (isUint16()) return quantization().toReal(data<std::uint16_t>()[index]);
    return quantization().toReal(data<std::int32_t>()[index]);
  }
};

/// An output that may be of several types.
class AnyOutput : public AnyView {
 public:
  using AnyView::AnyView;

  /// The elements, where they are of type T; ask `isFloat()` and its like first.
  template <class T>
  T* data() const {
    return static_cast<T*>(data_);
  }

  /// Writes one element from a real number, whatever the type; rounds and saturates.
  void setReal(std::size_t index, float real) const {
    if (isFloat()) {
      data<float>()[index] = real;
    } else if (isHalf()) {
      data<Half>()[index] = Half(real);
    } else if (isUint8()) {
      data<std::uint8_t>()[index] = static_cast<std::uint8_t>(quantization().toStored(real, 0, 255));
    } else if (isUint16()) {
      data<std::uint16_t>()[index] = static_cast<std::uint16_t>(quantization().toStored(real, 0, 65535));
    } else {
      data<std::int32_t>()[index] = quantization().toStored(real, INT32_MIN, INT32_MAX);
    }
  }
};

}  // namespace udo
