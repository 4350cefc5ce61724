// The headers of the SDK that an op needs, and functions for kernels and their tensors.

#include "HTP/core/constraints.h"
#include "HTP/core/op_package_feature_support.h"
#include "HTP/core/op_register_ext.h"
#include "HTP/core/optimize.h"
#include "HTP/core/simple_reg.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <type_traits>

#include "QnnOpPackage.h"
#include "QnnTypes.h"

namespace udo {

/// Writes an error to the QNN log, after the name of the op that runs, and returns the status for the kernel to return.
__attribute__((format(printf, 1, 2))) GraphStatus fail(const char* format, ...);

/// The result of a kernel that is not written yet.
GraphStatus notWritten(const char* op, const char* file);

/// Whether two tensors have the same dimensions.
template <class A, class B>
bool sameShape(const A& a, const B& b) {
  if (a.rank() != b.rank()) return false;
  for (std::size_t axis = 0; axis < a.rank(); ++axis) {
    if (a.dim(axis) != b.dim(axis)) return false;
  }
  return true;
}

/// Scale and offset of a tensor: real = scale * (stored + offset); 1 and 0 if it is not quantized.
template <class T>
Quantization quantization(const T& tensor) {
  const auto interface = tensor.get_dtype_intfc();
  return Quantization{interface.scale, -static_cast<std::int32_t>(interface.offset)};
}

/// The number of elements of the axes `first` … `last - 1`; of all axes without arguments.
template <class T>
std::size_t count(const T& tensor, std::size_t first, std::size_t last) {
  std::size_t product = 1;
  for (std::size_t axis = first; axis < last; ++axis) product *= tensor.dim(axis);
  return product;
}
template <class T>
std::size_t count(const T& tensor) {
  return count(tensor, 0, tensor.rank());
}

/// One element of a tensor as a real number, regardless of its type; fixed point is dequantized.  All tensors are
/// row-major, as the registration requests; `tensor(b, h, w, d)` of the SDK also supports other layouts.
float real(const Tensor& tensor, std::size_t index);
template <class T>
float real(const T& tensor, std::size_t index) {
  using Stored = typename T::element_type;
  const Stored value = static_cast<const Stored*>(tensor.raw_data_const())[index];
  if constexpr (std::is_integral_v<Stored>) return quantization(tensor).toReal(value);
  return static_cast<float>(value);
}

/// Writes one element from a real number, regardless of the type; rounds and saturates.
void setReal(Tensor& tensor, std::size_t index, float real);
template <class T>
void setReal(T& tensor, std::size_t index, float real) {
  using Stored = typename T::element_type;
  Stored& place = static_cast<Stored*>(tensor.raw_data())[index];
  if constexpr (std::is_integral_v<Stored>) {
    using Limits = std::numeric_limits<Stored>;
    place = static_cast<Stored>(quantization(tensor).toStored(real, Limits::min(), Limits::max()));
  } else {
    place = static_cast<Stored>(real);
  }
}

/// A tensor parameter: its elements are row-major, in main memory.
class View {
 public:
  View() = default;
  explicit View(const Tensor* tensor) : tensor_(tensor) {}

  /// False for an optional parameter that the client left out.
  explicit operator bool() const { return tensor_ != nullptr; }

  const Tensor& tensor() const { return *tensor_; }
  std::size_t size() const { return count(*tensor_); }

 protected:
  const Tensor* tensor_ = nullptr;
};

/// A tensor parameter whose elements are of type T.
template <class T>
class Input : public View {
 public:
  using View::View;
  const T* data() const { return static_cast<const T*>(tensor_->raw_data_const()); }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size(); }
  const T& operator[](std::size_t index) const { return data()[index]; }
};

/// A tensor parameter that may be of several types.
class AnyInput : public View {
 public:
  using View::View;

  /// One element as a real number, regardless of its type; fixed point is dequantized.
  float real(std::size_t index) const { return udo::real(*tensor_, index); }
};

/// The parameters that a kernel is called with; null for those that the client left out.
class Given {
 public:
  explicit Given(const Tensor* const* tensors) : tensors_(tensors) {}

  bool has(std::size_t index) const { return tensors_[index] != nullptr; }

  /// A scalar parameter, or its default.
  template <class T>
  T scalar(std::size_t index, T otherwise) const {
    if (!has(index)) return otherwise;
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(AnyInput(tensors_[index]).real(0));
    } else {
      // libQnnHtp 2.48 passes a BOOL_8 as a float and sets only its first byte; the others are random.
      const void* data = tensors_[index]->raw_data_const();
      if constexpr (sizeof(T) == 1) return static_cast<T>(read<std::uint8_t>(data));
      if constexpr (sizeof(T) == 2) return static_cast<T>(read<std::uint16_t>(data));
      if constexpr (std::is_unsigned_v<T>) return static_cast<T>(read<std::uint32_t>(data));
      return static_cast<T>(read<std::int32_t>(data));
    }
  }

  /// A tensor parameter.
  template <class V>
  V tensor(std::size_t index, const V& otherwise = V()) const {
    return has(index) ? V(tensors_[index]) : otherwise;
  }

 private:
  template <class N>
  static N read(const void* data) {
    N number;
    std::memcpy(&number, data, sizeof number);
    return number;
  }

  const Tensor* const* tensors_;
};

/// Whether the config allows the type of a tensor; a kernel for tensors of any type is called with all types.
bool isOneOf(const Tensor& tensor, const char* name, std::initializer_list<DType> types);

template <class T>
bool accepts(const T& tensor, const char* name, std::initializer_list<DType> types) {
  if constexpr (std::is_same_v<T, Tensor>) return isOneOf(tensor, name, types);
  return true;
}

/// The default of a parameter in the form of the QNN API.
Qnn_Param_t scalarParam(const char* name, Qnn_DataType_t type, double value);
Qnn_Param_t tensorParam(const char* name, Qnn_DataType_t type, const void* data, std::size_t bytes,
                        const std::uint32_t* dims, std::size_t rank);

template <class T, std::size_t Size, std::size_t Rank>
Qnn_Param_t tensorParam(const char* name, Qnn_DataType_t type, const T (&data)[Size], const std::uint32_t (&dims)[Rank]) {
  return tensorParam(name, type, data, sizeof data, dims, Rank);
}

}  // namespace udo
