// The functions of QHPI that a kernel may call: what it is told of its tensors and of its thread.
#include <cstdarg>
#include <cmath>
#include <cstring>

#include "layout.hpp"
#include "operand.hpp"

#define QHPI_EXPORT extern "C" __attribute__((visibility("default")))

namespace emulator {
namespace {

float fromHalf(std::uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const float size = exponent == 0    ? std::ldexp(static_cast<float>(fraction), -24)
                     : exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                                      : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return (half & 0x8000) != 0 ? -size : size;
}

std::uint16_t toHalf(float value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const float size = std::fabs(value);
  if (std::isnan(size)) return static_cast<std::uint16_t>(sign | 0x7e00);
  if (size >= 65520.0f) return static_cast<std::uint16_t>(sign | 0x7c00);
  if (size < 6.103515625e-5f) return static_cast<std::uint16_t>(sign | static_cast<int>(std::nearbyint(std::ldexp(size, 24))));
  int exponent = 0;
  const float fraction = std::frexp(size, &exponent);  // 0.5 … 1
  return static_cast<std::uint16_t>(sign | (((exponent + 14) << 10) + static_cast<int>(std::nearbyint(std::ldexp(fraction, 11))) - 1024));
}

std::uint16_t halfAt(const void* at) {
  std::uint16_t half;
  std::memcpy(&half, at, sizeof half);
  return half;
}

template <class T>
float stored(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<float>(value);
}

template <class T>
void store(void* at, float value) {
  const T made = static_cast<T>(static_cast<std::int64_t>(value));
  std::memcpy(at, &made, sizeof made);
}

void* elementAt(const QHPI_Tensor& tensor, std::uint32_t rank, const std::uint32_t* at) {
  const QHPI_Shape& shape = tensor.definition.shape;
  std::uint32_t full[QHPI_MAX_RANK] = {};
  for (std::uint32_t i = 0; i < rank && i < shape.rank; ++i) full[shape.rank - 1 - i] = at[rank - 1 - i];
  std::size_t block, element;
  locate(tensor.layout, shape, full, block, element);
  const std::uint32_t size = sizeOfElement(tensor.definition.type);
  if (tensor.isIndirect) return static_cast<char*>(tensor.blocks[block]) + element * size;
  return static_cast<char*>(tensor.data) + block * blockBytes(tensor.layout, size) + element * size;
}

}  // namespace
}  // namespace emulator

using namespace emulator;  // what follows is C

QHPI_EXPORT QHPI_Shape qhpi_tensor_shape(const QHPI_Tensor* tensor) { return tensor->definition.shape; }

QHPI_EXPORT QHPI_Shape qhpi_tensor_padding(const QHPI_Tensor* tensor) {
  QHPI_Shape none = {};
  none.rank = tensor->definition.shape.rank;
  return none;
}

// libQnnHtp 2.47 tells the same for tensors in blocks, whatever their last blocks have beyond it.
QHPI_EXPORT QHPI_Shape qhpi_tensor_padded_shape(const QHPI_Tensor* tensor) { return tensor->definition.shape; }
QHPI_EXPORT QHPI_Element_Type qhpi_tensor_type(const QHPI_Tensor* tensor) { return tensor->definition.type; }
QHPI_EXPORT QHPI_Standard_Layout qhpi_tensor_layout(const QHPI_Tensor* tensor) { return tensor->layout; }
QHPI_EXPORT QHPI_MemLoc qhpi_tensor_placement(const QHPI_Tensor* tensor) { return tensor->placement; }

QHPI_EXPORT QHPI_Quant_Parameters qhpi_tensor_quant_parameters(const QHPI_Tensor* tensor) {
  return tensor->definition.quant_parameters;
}

QHPI_EXPORT void* qhpi_tensor_raw_data(const QHPI_Tensor* tensor) {
  return tensor->isIndirect && tensor->data != nullptr ? tensor->blocks[0] : tensor->data;
}

QHPI_EXPORT void** qhpi_tensor_block_table(const QHPI_Tensor* tensor) {
  auto& own = *const_cast<QHPI_Tensor*>(tensor);
  return own.isIndirect ? own.blocks.data() : &own.data;
}

QHPI_EXPORT std::uint32_t qhpi_tensor_block_table_length(const QHPI_Tensor* tensor) {
  return tensor->isIndirect ? static_cast<std::uint32_t>(tensor->blocks.size()) : 1;
}

QHPI_EXPORT QHPI_Shape qhpi_tensor_block_shape(const QHPI_Tensor* tensor) { return blockOf(tensor->layout); }
QHPI_EXPORT std::uint32_t qhpi_tensor_is_indirect(const QHPI_Tensor* tensor) { return tensor->isIndirect; }

// Stored values, not real ones, and without saturation: so libQnnHtp 2.47, whatever its header says.
QHPI_EXPORT float qhpi_tensor_get(const QHPI_Tensor* tensor, std::uint32_t rank, ...) {
  std::uint32_t at[QHPI_MAX_RANK] = {};
  std::va_list list;
  va_start(list, rank);
  for (std::uint32_t i = 0; i < rank && i < QHPI_MAX_RANK; ++i) at[i] = va_arg(list, std::uint32_t);
  va_end(list);
  const void* const from = elementAt(*tensor, rank, at);
  switch (tensor->definition.type) {
    case QHPI_QUInt8: return stored<std::uint8_t>(from);
    case QHPI_QInt8: return stored<std::int8_t>(from);
    case QHPI_QUInt16: return stored<std::uint16_t>(from);
    case QHPI_QInt16: return stored<std::int16_t>(from);
    case QHPI_QInt32:
    case QHPI_Int32: return stored<std::int32_t>(from);
    case QHPI_Int64: return stored<std::int64_t>(from);
    case QHPI_Float16: return fromHalf(halfAt(from));
    default: return stored<float>(from);
  }
}

QHPI_EXPORT void qhpi_tensor_set(const QHPI_Tensor* tensor, std::uint32_t rank, ...) {
  std::uint32_t at[QHPI_MAX_RANK] = {};
  std::va_list list;
  va_start(list, rank);
  for (std::uint32_t i = 0; i < rank && i < QHPI_MAX_RANK; ++i) at[i] = va_arg(list, std::uint32_t);
  const auto value = static_cast<float>(va_arg(list, double));
  va_end(list);
  void* const to = elementAt(*tensor, rank, at);
  switch (tensor->definition.type) {
    case QHPI_QUInt8: return store<std::uint8_t>(to, value);
    case QHPI_QInt8: return store<std::int8_t>(to, value);
    case QHPI_QUInt16: return store<std::uint16_t>(to, value);
    case QHPI_QInt16: return store<std::int16_t>(to, value);
    case QHPI_QInt32:
    case QHPI_Int32: return store<std::int32_t>(to, value);
    case QHPI_Int64: return store<std::int64_t>(to, value);
    case QHPI_Float16: return store<std::uint16_t>(to, toHalf(value));
    default: std::memcpy(to, &value, sizeof value);
  }
}

QHPI_EXPORT std::uint32_t qhpi_num_slices(QHPI_RuntimeHandle* handle) { return handle->slices; }
QHPI_EXPORT std::uint32_t qhpi_slice_number(QHPI_RuntimeHandle* handle) { return handle->slice; }
QHPI_EXPORT void* qhpi_sync_block(QHPI_RuntimeHandle* handle) { return handle->shared; }
QHPI_EXPORT std::uint32_t qhpi_srm_context(QHPI_RuntimeHandle*) { return 0; }

QHPI_EXPORT std::uint32_t qhpi_thread_resources(QHPI_RuntimeHandle* handle) {
  return handle->resources == QHPI_RESOURCE_MAIN ? 0 : handle->resources;
}

QHPI_EXPORT std::uint32_t qhpi_element_type_size(QHPI_Element_Type type) { return sizeOfElement(type); }

// rank, count, then pairs of a dimension and its chunk, in bytes
QHPI_EXPORT QHPI_StatusCode qhpi_chunked_layout(QHPI_Standard_Layout code, void* into, std::uint32_t size) {
  const Layout* const layout = layoutOf(code);
  if (layout == nullptr) return QHPI_Unsupported;
  const std::uint32_t head[] = {layout->rank, layout->count};
  if (into == nullptr || size < sizeof head + layout->count * sizeof(Chunk)) return QHPI_ErrorFatal;
  std::memcpy(into, head, sizeof head);
  std::memcpy(static_cast<char*>(into) + sizeof head, layout->chunks, layout->count * sizeof(Chunk));
  return QHPI_Success;
}
