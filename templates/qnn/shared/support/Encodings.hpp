// The quantization of a tensor, where the runtime passes it as QNN describes it.

namespace udo {

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
