// The tensors of a node, where the runtime passes them as QNN describes them, and how its functions are called.

namespace udo {

// Calls a function of a kernel; an exception becomes an error, because nothing may be thrown into the runtime.
template <class Step>
Status guarded(const Step& step) {
#if defined(__cpp_exceptions)
  try {
    return step();
  } catch (...) {
    return error("threw a C++ exception; a kernel must return an error instead");
  }
#else
  return step();
#endif
}

// The position of the tensor at `index` of the specs in a node with `count` tensors: a repeated one before it shifts
// it.
inline std::size_t positionOf(List<TensorSpec> specs, std::size_t count, std::size_t index) {
  for (std::size_t i = 0; i < index; ++i) {
    if (specs.items[i].repeated && count > specs.count) return index + count - specs.count;
  }
  return index;
}

// Scale and offset of a tensor that is quantized; false, with both unchanged, if its channels or blocks have their own.
inline bool encodingOf(const Qnn_QuantizeParams_t& params, float& scale, std::int32_t& offset) {
  switch (params.quantizationEncoding) {
    case QNN_QUANTIZATION_ENCODING_SCALE_OFFSET:
      scale = params.scaleOffsetEncoding.scale;
      offset = params.scaleOffsetEncoding.offset;
      return true;
    case QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET:
      scale = params.bwScaleOffsetEncoding.scale;
      offset = params.bwScaleOffsetEncoding.offset;
      return true;
    default: return params.quantizationEncoding == QNN_QUANTIZATION_ENCODING_UNDEFINED;
  }
}

// The error for a tensor whose channels or blocks have their own scales.
inline Status notWhole(const char* tensor) {
  return error("`%s` is quantized per channel or block; a kernel sees one scale and one offset for a whole tensor",
               tensor == nullptr ? "" : tensor);
}

}  // namespace udo
