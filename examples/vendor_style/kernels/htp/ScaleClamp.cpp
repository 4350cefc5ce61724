// ScaleClamp for HTP, in the style of newer generators: the source registers its kernel with QHPI itself.
#include <algorithm>

#include "HTP/core/constraints.h"
#include "HTP/core/qhpi.h"

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

static uint32_t scaleclamp(QHPI_RuntimeHandle*, uint32_t, QHPI_Tensor** outputs, uint32_t,
                           const QHPI_Tensor* const* inputs) {
  const QHPI_Shape shape = qhpi_tensor_shape(inputs[0]);
  const float* x = static_cast<const float*>(qhpi_tensor_raw_data(inputs[0]));
  const float limit = *static_cast<const float*>(qhpi_tensor_raw_data(inputs[1]));
  const float* gain = static_cast<const float*>(qhpi_tensor_raw_data(inputs[2]));
  float* y = static_cast<float*>(qhpi_tensor_raw_data(outputs[0]));
  const uint32_t channels = shape.dims[3];
  const uint32_t count = shape.dims[0] * shape.dims[1] * shape.dims[2] * channels;
  for (uint32_t i = 0; i < count; i++) {
    y[i] = std::min(x[i] * gain[i % channels], limit);
  }
  return QHPI_Success;
}

#define FLAT_FLOATS {QHPI_Float32, QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_DDR_Only}
static QHPI_Tensor_Signature_v1 inputs[] = {FLAT_FLOATS, FLAT_FLOATS, FLAT_FLOATS};
static QHPI_Tensor_Signature_v1 outputs[] = {FLAT_FLOATS};

static QHPI_Kernel_v1 kernel() {
  QHPI_Kernel_v1 made = {};
  made.function_name = TEXT(THIS_PKG_NAME) "::scaleclamp";
  made.function = scaleclamp;
  made.resources = QHPI_RESOURCE_HVX;
  made.min_inputs = 3;
  made.input_signature = inputs;
  made.min_outputs = 1;
  made.output_signature = outputs;
  return made;
}

extern "C" void register_scaleclamp_ops() {
  static QHPI_Kernel_v1 kernels[] = {kernel()};
  static QHPI_OpInfo_v1 op = {};
  op.name = TEXT(THIS_PKG_NAME) "::ScaleClamp";
  op.num_kernels = 1;
  op.kernels = kernels;
  qhpi_register_ops_v1(1, &op, TEXT(THIS_PKG_NAME));
}
