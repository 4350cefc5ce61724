// The functions of QHPI that a kernel may call: what it is stages of its tensors and of its thread.
#include "kernels.hpp"
#include "layout.hpp"

#define QHPI_EXPORT extern "C" __attribute__((visibility("default")))

using namespace emulator;  // what follows is C

QHPI_EXPORT QHPI_Shape qhpi_tensor_shape(const QHPI_Tensor* tensor) { return tensor->definition.shape; }

QHPI_EXPORT QHPI_Shape qhpi_tensor_padding(const QHPI_Tensor* tensor) {
  QHPI_Shape none = {};
  none.rank = tensor->definition.shape.rank;
  return none;
}

// libQnnHtp 2.47 returns the same for tensors in blocks, whatever their last blocks have beyond it.
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

QHPI_EXPORT std::uint32_t qhpi_num_slices(QHPI_RuntimeHandle* handle) { return handle->slices; }
QHPI_EXPORT std::uint32_t qhpi_slice_number(QHPI_RuntimeHandle* handle) { return handle->slice; }
QHPI_EXPORT void* qhpi_sync_block(QHPI_RuntimeHandle* handle) { return handle->shared; }
QHPI_EXPORT std::uint32_t qhpi_element_type_size(QHPI_Element_Type type) { return sizeOfElement(type); }
