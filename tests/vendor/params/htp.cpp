#include "HTP/core/qhpi.h"
static uint32_t run(QHPI_RuntimeHandle*, uint32_t, QHPI_Tensor** outputs, uint32_t, const QHPI_Tensor* const* inputs) {
  const QHPI_Shape shape = qhpi_tensor_shape(inputs[0]);
  const float* x = (const float*)qhpi_tensor_raw_data(inputs[0]);
  float* y = (float*)qhpi_tensor_raw_data(outputs[0]);
  const float sum = @SUM@;
  for (uint32_t i = 0; i < shape.dims[3]; i++) y[i] = x[i] + sum;
  return QHPI_Success;
}
extern "C" void register_@LOWER@_ops() {
  static QHPI_Tensor_Signature_v1 in[] = {
      {QHPI_Float32, QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_DDR_OR_TCM}, @SIGNATURES@};
  static QHPI_Kernel_v1 kernels[1] = {};
  kernels[0].function_name = "ParamsPackage::@OP@_run";
  kernels[0].function = run;
  kernels[0].resources = QHPI_RESOURCE_HVX;
  kernels[0].min_inputs = 1 + @COUNT@;
  kernels[0].input_signature = in;
  kernels[0].min_outputs = 1;
  kernels[0].output_signature = in;
  static QHPI_OpInfo_v1 op = {};
  op.name = "ParamsPackage::@OP@";
  op.num_kernels = 1;
  op.kernels = kernels;
  qhpi_register_ops_v1(1, &op, "ParamsPackage");
}
