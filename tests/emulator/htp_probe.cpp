// A QHPI package that udogen did not generate.  Its ops record the properties of their tensors.  Built and run by
// test_htp_probe.py.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "HTP/core/qhpi.h"
#include "QnnOpPackage.h"

namespace {

float* put(float* at, const QHPI_Shape& shape) {
  *at++ = static_cast<float>(shape.rank);
  for (std::uint32_t i = 0; i < 5; ++i) *at++ = i < shape.rank ? static_cast<float>(shape.dims[i]) : -1.0f;
  return at;
}

std::uint32_t tell(QHPI_RuntimeHandle*, std::uint32_t outputs, QHPI_Tensor** output, std::uint32_t inputs,
                   const QHPI_Tensor* const* input) {
  float* const first = static_cast<float*>(qhpi_tensor_raw_data(output[0]));
  std::memset(first, 0, 256 * sizeof *first);
  first[0] = static_cast<float>(inputs);
  first[1] = static_cast<float>(outputs);
  for (std::uint32_t i = 0; i < inputs && i < 4; ++i) {
    const QHPI_Tensor* const tensor = input[i];
    float* at = first + 2 + i * 40;
    *at++ = static_cast<float>(qhpi_tensor_type(tensor));
    *at++ = static_cast<float>(qhpi_tensor_layout(tensor));
    *at++ = static_cast<float>(qhpi_tensor_placement(tensor));
    at = put(at, qhpi_tensor_shape(tensor));
    at = put(at, qhpi_tensor_padding(tensor));
    at = put(at, qhpi_tensor_padded_shape(tensor));
    at = put(at, qhpi_tensor_block_shape(tensor));
    *at++ = static_cast<float>(qhpi_tensor_block_table_length(tensor));
    *at++ = static_cast<float>(qhpi_tensor_quant_parameters(tensor).zero_offset);
    *at++ = qhpi_tensor_quant_parameters(tensor).stepsize;
    const unsigned char* const data = static_cast<const unsigned char*>(qhpi_tensor_raw_data(tensor));
    *at++ = static_cast<float>(data[0]);  // of a boolean, the other bytes are undefined
  }
  return QHPI_Success;
}

// Each slice writes its number once all have started: with fewer threads than slices it would never end.
std::uint32_t meet(QHPI_RuntimeHandle* handle, std::uint32_t, QHPI_Tensor** output, std::uint32_t,
                   const QHPI_Tensor* const*) {
  auto* const arrived = static_cast<std::atomic<std::uint32_t>*>(qhpi_sync_block(handle));
  ++*arrived;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (*arrived < qhpi_num_slices(handle)) {
    if (std::chrono::steady_clock::now() > end) return QHPI_ErrorFatal;
    std::this_thread::yield();
  }
  float* const out = static_cast<float*>(qhpi_tensor_raw_data(output[0]));
  out[qhpi_slice_number(handle)] = static_cast<float>(qhpi_num_slices(handle));
  return QHPI_Success;
}

std::uint32_t slow(QHPI_RuntimeHandle*, std::uint32_t, QHPI_Tensor** output, std::uint32_t, const QHPI_Tensor* const*) {
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  static_cast<float*>(qhpi_tensor_raw_data(output[0]))[0] = 1.0f;
  return QHPI_Success;
}

// The input unchanged.
std::uint32_t copied(QHPI_RuntimeHandle*, std::uint32_t, QHPI_Tensor** output, std::uint32_t,
                     const QHPI_Tensor* const* input) {
  const QHPI_Shape shape = qhpi_tensor_shape(input[0]);
  std::size_t bytes = qhpi_element_type_size(qhpi_tensor_type(input[0]));
  for (std::uint32_t i = 0; i < shape.rank; ++i) bytes *= shape.dims[i];
  std::memcpy(qhpi_tensor_raw_data(output[0]), qhpi_tensor_raw_data(input[0]), bytes);
  return QHPI_Success;
}

const QHPI_Op* endless(const QHPI_Op* op) {
  const QHPI_OpRef input = qhpi_op_input(op, 0);
  const QHPI_OutputDef output = qhpi_op_output(op, 0);
  return qhpi_op_create(op, "Probe::Endless", 1, &input, 1, &output);
}

const QHPI_Op* nothing(const QHPI_Op*) { return nullptr; }

const QHPI_Op* reshaped(const QHPI_Op* op) {
  const QHPI_OpRef input = qhpi_op_input(op, 0);
  QHPI_OutputDef output = qhpi_op_output(op, 0);
  output.shape.dims[3] /= 2;
  return qhpi_op_create(op, "Probe::Flat4", 1, &input, 1, &output);
}

const QHPI_Op* stranger(const QHPI_Op* op) {
  const QHPI_OpRef input = qhpi_op_input(op, 0);
  const QHPI_OutputDef output = qhpi_op_output(op, 0);
  return qhpi_op_create(op, "Probe::Nobody", 1, &input, 1, &output);
}

const QHPI_Op* other(const QHPI_Op* op) {
  const QHPI_OpRef input = qhpi_op_input(op, 0);
  const QHPI_OutputDef output = qhpi_op_output(op, 0);
  return qhpi_op_create(op, "Probe::Flat4", 1, &input, 1, &output);
}

const QHPI_Op* sliced(const QHPI_Op* op) {
  const QHPI_Shape shape = qhpi_op_output(op, 0).shape;
  return qhpi_op_slice(qhpi_op_input(op, 0), &shape, &shape).op;
}

struct Row {
  const char* name;
  std::uint32_t layout;
  unsigned char storage, memory;
  QHPI_Plugin_Function run;
  QHPI_RewriteOpFunc rewrite;
};

const Row rows[] = {
    {"Probe::Flat4", QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_DDR_OR_TCM, tell, nullptr},
    {"Probe::Flat5", QHPI_Layout_Flat5, QHPI_Storage_Direct, QHPI_MemLoc_DDR_OR_TCM, tell, nullptr},
    {"Probe::Ddr", QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_DDR_Only, tell, nullptr},
    {"Probe::Tcm", QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_TCM_Only, tell, nullptr},
    {"Probe::Either", QHPI_Layout_Flat4, QHPI_Storage_Direct_OR_Indirect, QHPI_MemLoc_DDR_OR_TCM, tell, nullptr},
    {"Probe::Crouton8", QHPI_Layout_Crouton_8, QHPI_Storage_Indirect, QHPI_MemLoc_DDR_OR_TCM, tell, nullptr},
    {"Probe::Meet", QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_DDR_OR_TCM, meet, nullptr},
    {"Probe::Slow", QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_DDR_OR_TCM, slow, nullptr},
    {"Probe::Copied", QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_DDR_OR_TCM, copied, nullptr},
    {"Probe::Endless", QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_DDR_OR_TCM, tell, endless},
    {"Probe::Nothing", QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_DDR_OR_TCM, tell, nothing},
    {"Probe::Reshaped", QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_DDR_OR_TCM, tell, reshaped},
    {"Probe::Stranger", QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_DDR_OR_TCM, tell, stranger},
    {"Probe::Other", QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_DDR_OR_TCM, tell, other},
    {"Probe::Sliced", QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_DDR_OR_TCM, tell, sliced},
};
constexpr int count = sizeof rows / sizeof *rows;
constexpr int params = 3;  // kernels for 0, 1, 2 parameters

const char* names[count];
QHPI_OpInfo_v1 infos[count];
QHPI_Kernel_v1 kernels[count][params];
char titles[count][params][64];
QHPI_Tensor_Signature_v1 inputs[count][params], outputs[count];

}  // namespace

extern "C" __attribute__((visibility("default"))) const char* qhpi_init() {
  for (int i = 0; i < count; ++i) {
    outputs[i] = {QHPI_Float32, QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_DDR_OR_TCM};
    if (rows[i].run == copied) {
      outputs[i] = {QHPI_Any_Element_Type, rows[i].layout, rows[i].storage, rows[i].memory};
    }
    inputs[i][0] = {QHPI_Any_Element_Type, rows[i].layout, rows[i].storage, rows[i].memory};
    for (int p = 1; p < params; ++p) {
      inputs[i][p] = {QHPI_Any_Element_Type, QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_DDR_OR_TCM};
    }
    for (int p = 0; p < params; ++p) {
      QHPI_Kernel_v1& kernel = kernels[i][p];
      std::snprintf(titles[i][p], sizeof titles[i][p], "%s_%d", std::strrchr(rows[i].name, ':') + 1, p);
      kernel.function_name = titles[i][p];
      kernel.function = rows[i].run;
      kernel.resources = QHPI_RESOURCE_HVX;
      kernel.multithreaded = rows[i].run == meet;
      kernel.sync_block_size = rows[i].run == meet ? 16 : 0;
      kernel.min_inputs = static_cast<std::uint32_t>(1 + p);
      kernel.input_signature = inputs[i];
      kernel.min_outputs = 1;
      kernel.output_signature = &outputs[i];
    }
    infos[i].name = rows[i].name;
    infos[i].num_kernels = params;
    infos[i].kernels = kernels[i];
    infos[i].early_rewrite = rows[i].rewrite;
    names[i] = std::strrchr(rows[i].name, ':') + 1;
  }
  return qhpi_register_ops_v1(count, infos, "Probe") == QHPI_Success ? "Probe" : nullptr;
}

extern "C" __attribute__((visibility("default"))) Qnn_ErrorHandle_t ProbeInterfaceProvider(
    QnnOpPackage_Interface_t* interface) {
  static const Qnn_ApiVersion_t version = {{2, 0, 0}, {1, 1, 0}};
  static QnnOpPackage_Info_t info = {"Probe", names, nullptr, count, nullptr, 0, nullptr, &version, nullptr, nullptr, {0}};
  interface->interfaceVersion = {1, 4, 0};
  interface->v1_4.init = [](QnnOpPackage_GlobalInfrastructure_t) -> Qnn_ErrorHandle_t { return 0; };
  interface->v1_4.terminate = []() -> Qnn_ErrorHandle_t { return 0; };
  interface->v1_4.getInfo = [](const QnnOpPackage_Info_t** to) -> Qnn_ErrorHandle_t { return *to = &info, 0; };
  interface->v1_4.validateOpConfig = [](Qnn_OpConfig_t) -> Qnn_ErrorHandle_t { return 3110; };  // HTP never calls it
  interface->v1_4.createOpImpl = [](QnnOpPackage_GraphInfrastructure_t, QnnOpPackage_Node_t,
                                    QnnOpPackage_OpImpl_t*) -> Qnn_ErrorHandle_t { return 3100; };
  interface->v1_4.freeOpImpl = [](QnnOpPackage_OpImpl_t) -> Qnn_ErrorHandle_t { return 3100; };
  interface->v1_4.logInitialize = [](QnnLog_Callback_t, QnnLog_Level_t) -> Qnn_ErrorHandle_t { return 0; };
  interface->v1_4.logSetLevel = [](QnnLog_Level_t) -> Qnn_ErrorHandle_t { return 0; };
  interface->v1_4.logTerminate = []() -> Qnn_ErrorHandle_t { return 0; };
  return 0;
}
