// A tensor as HTP passes it, with features that only HTP has.

#include "HTP/core/qhpi.h"

#define UDO_HTP 1

namespace udo {

inline Shape shapeOf(const QHPI_Shape& shape) { return Shape(shape.dims, shape.rank); }

/// All types of 8 bits are uint8, all of 16 bits except floats are uint16, with an offset if they are signed.
inline Element elementOf(QHPI_Element_Type type) {
  switch (type) {
    case QHPI_Float32: return Element::float32;
    case QHPI_Float16: return Element::half;
    case QHPI_QUInt8: return Element::uint8;
    case QHPI_QUInt16: return Element::uint16;
    case QHPI_QInt32: return Element::fixed32;
    case QHPI_Int64: return Element::int64;
    default: return Element::int32;
  }
}

/// Ranks below 4 get leading ones.
class BackendTensor {
 public:
  BackendTensor() = default;
  explicit BackendTensor(const QHPI_Tensor* tensor)
      : tensor_(tensor),
        data_(qhpi_tensor_raw_data(tensor)),
        shape_(shapeOf(qhpi_tensor_shape(tensor))),
        element_(elementOf(qhpi_tensor_type(tensor))) {
    const QHPI_Quant_Parameters params = qhpi_tensor_quant_parameters(tensor);
    quantization_ = Quantization{params.stepsize, -params.zero_offset};
  }

  /// A default from a generated table, as HTP would deliver it.
  BackendTensor(const void* data, const Shape& shape, QHPI_Element_Type type, std::int32_t zeroOffset = 0)
      : data_(const_cast<void*>(data)), shape_(shape), quantization_{1.0f, -zeroOffset}, element_(elementOf(type)) {}

  explicit operator bool() const { return tensor_ != nullptr || data_ != nullptr; }
  std::size_t rank() const { return shape_.rank(); }
  Element element() const { return element_; }
  Quantization quantization() const { return quantization_; }

  /// True if the tensor is in TCM.
  bool inTcm() const { return tensor_ != nullptr && qhpi_tensor_placement(tensor_) == QHPI_MemLoc_TCM_Only; }

  /// The shape of the blocks of a tensor that is not flat; the extents are 0 if it has none.
  Shape blockShape() const { return tensor_ != nullptr ? shapeOf(qhpi_tensor_block_shape(tensor_)) : Shape(); }
  std::size_t blockCount() const { return tensor_ != nullptr ? qhpi_tensor_block_table_length(tensor_) : 0; }
  template <class T>
  T* blockAt(std::size_t index) const {
    return static_cast<T*>(qhpi_tensor_block_table(tensor_)[index]);
  }

  /// The shape with the padding of the layout, and the padding at its beginning.
  Shape paddedShape() const { return tensor_ != nullptr ? shapeOf(qhpi_tensor_padded_shape(tensor_)) : shape_; }
  Shape padding() const { return tensor_ != nullptr ? shapeOf(qhpi_tensor_padding(tensor_)) : Shape(); }

 protected:
  const std::uint32_t* dims() const { return shape_.begin(); }
  void* address() const { return data_; }

 private:
  const QHPI_Tensor* tensor_ = nullptr;
  void* data_ = nullptr;
  Shape shape_;
  Quantization quantization_;
  Element element_ = Element::other;
};

}  // namespace udo
