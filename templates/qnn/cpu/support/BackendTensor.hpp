// A tensor as libQnnCpu passes it, and repeated inputs and outputs, which only CPU and GPU have.

#include "CPU/QnnCpuOpPackage.h"
#include "QnnTypes.h"

#define UDO_CPU 1

namespace udo {

using RawTensor = QnnCpuOpPackage_Tensor_t;

/// What validation found about a tensor, and the runtime does not pass when the op is created.
struct TensorFacts {
  bool omitted = false;    // an optional tensor that the client left out
  bool quantized = false;  // fixed point: quantizeParams are defined
};

inline Element elementOf(std::uint32_t type) {
  switch (type) {
    case QNN_DATATYPE_FLOAT_32: return Element::float32;
    case QNN_DATATYPE_FLOAT_16: return Element::half;
    case QNN_DATATYPE_INT_8:
    case QNN_DATATYPE_SFIXED_POINT_8: return Element::int8;
    case QNN_DATATYPE_UINT_8:
    case QNN_DATATYPE_UFIXED_POINT_8: return Element::uint8;
    case QNN_DATATYPE_BOOL_8: return Element::boolean;
    case QNN_DATATYPE_INT_16:
    case QNN_DATATYPE_SFIXED_POINT_16: return Element::int16;
    case QNN_DATATYPE_UINT_16:
    case QNN_DATATYPE_UFIXED_POINT_16: return Element::uint16;
    case QNN_DATATYPE_INT_32: return Element::int32;
    case QNN_DATATYPE_SFIXED_POINT_32: return Element::fixed32;
    case QNN_DATATYPE_UINT_32: return Element::uint32;
    case QNN_DATATYPE_INT_64: return Element::int64;
    default: return Element::other;
  }
}

/// A view whose data and dimensions may change with each execution.
class BackendTensor {
 public:
  BackendTensor() = default;
  BackendTensor(const RawTensor* raw, bool quantized) : raw_(raw), quantized_(quantized) {
    if (raw == nullptr) return;
    element_ = elementOf(static_cast<std::uint32_t>(raw->dataType));
    // The runtime leaves quantizeParams of other tensors uninitialised: they must not be read.
    if (quantized) encodingOf(raw->quantizeParams, quantization_.scale, quantization_.offset);
  }

  explicit operator bool() const { return raw_ != nullptr; }
  std::size_t rank() const { return raw_->rank; }
  Element element() const { return element_; }
  bool isFixedPoint() const { return quantized_; }

  Quantization quantization() const { return quantization_; }

 protected:
  const std::uint32_t* dims() const { return raw_->currentDimensions; }
  void* address() const { return raw_->data; }
  template <class T>
  T* blockAt(std::size_t) const {
    static_assert(sizeof(T) == 0, "only HTP has tensors in blocks: put this kernel into kernels/htp");
    return nullptr;
  }

 private:
  const RawTensor* raw_ = nullptr;
  Element element_ = Element::other;
  bool quantized_ = false;
  Quantization quantization_;
};

/// A repeated input or output: a variable number of tensors.
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
