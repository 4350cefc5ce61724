// A tensor as the DSP passes it, with a range instead of scale and offset.

#include "DSP/QnnDspOpPackage.h"

#define UDO_DSP 1

namespace udo {

using RawTensor = Udo_TensorParam_t;

inline Element elementOf(Udo_DataType_t type) {
  switch (type) {
    case UDO_DATATYPE_FLOAT_32: return Element::float32;
    case UDO_DATATYPE_FLOAT_16: return Element::half;
    case UDO_DATATYPE_INT_8: return Element::int8;
    case UDO_DATATYPE_INT_16: return Element::int16;
    case UDO_DATATYPE_UINT_16:
    case UDO_DATATYPE_FIXED_16: return Element::uint16;
    case UDO_DATATYPE_INT_32: return Element::int32;
    case UDO_DATATYPE_FIXED_32: return Element::fixed32;
    case UDO_DATATYPE_UINT_32: return Element::uint32;
    default: return Element::uint8;
  }
}

/// Ranks below 4 get leading ones.
class BackendTensor {
 public:
  BackendTensor() = default;
  explicit BackendTensor(const RawTensor* raw) : raw_(raw) {
    if (raw == nullptr) return;
    element_ = elementOf(raw->dataType);
    update();
  }

  explicit operator bool() const { return raw_ != nullptr && raw_->layout != UDO_LAYOUT_NULL; }
  std::size_t rank() const { return raw_->tensorRank; }
  Element element() const { return element_; }

  /// The smallest and the largest real number that a stored one represents; both 0 without a range.
  float lowest() const { return isQuantized() ? raw_->quantizeParams.TFParams.minValue : 0.0f; }
  float highest() const { return isQuantized() ? raw_->quantizeParams.TFParams.maxValue : 0.0f; }

  /// The same as scale and offset, with zero as one of the stored numbers; scale 1 and offset 0 without a range.
  Quantization quantization() const {
    return lowest() == lowest_ && highest() == highest_ ? quantization_ : calculated();
  }

  const RawTensor* raw() const { return raw_; }

  /// Must be called after the range has changed.
  void update() const {
    lowest_ = lowest();
    highest_ = highest();
    quantization_ = calculated();
  }

 protected:
  const std::uint32_t* dims() const { return raw_->currDimensions; }
  void* address() const { return raw_->tensorData; }
  template <class T>
  T* blockAt(std::size_t) const {
    static_assert(sizeof(T) == 0, "only HTP has tensors in blocks: put this kernel into kernels/htp");
    return nullptr;
  }

 private:
  bool isQuantized() const { return raw_->quantizeParams.quantizeType == UDO_QUANTIZATION_TF; }

  Quantization calculated() const {
    const float step = (highest() - lowest()) / 255.0f;
    if (!(step > 0.0f)) return Quantization{};
    return Quantization{step, static_cast<std::int32_t>(std::nearbyint(lowest() / step))};
  }

  const RawTensor* raw_ = nullptr;
  Element element_ = Element::other;
  mutable float lowest_ = 0.0f;
  mutable float highest_ = 0.0f;
  mutable Quantization quantization_;
};

}  // namespace udo
