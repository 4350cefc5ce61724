// Replaces the generated src/RawInterface.cpp: handwritten kernel records, of every kind that QHPI has.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "udogen.hpp"
#ifdef __hexagon__
#include <hexagon_protos.h>
#include <hexagon_types.h>
#endif

// Symbols of the generated tables that the sources of the package need; this package has no such tables.
namespace udo {
namespace {
Counter counters[] = {"Add"};
}
Executions executions("Raw", "calls", counters);
const PackageTables tables = {"Raw", {}, {}};
}  // namespace udo

namespace {

using Inputs = const QHPI_Tensor* const*;
using Outputs = QHPI_Tensor**;

std::size_t count(const QHPI_Tensor* tensor) {
  const QHPI_Shape shape = qhpi_tensor_shape(tensor);
  std::size_t product = 1;
  for (std::uint32_t axis = 0; axis < shape.rank; ++axis) product *= shape.dims[axis];
  return product;
}

template <class T>
T* data(const QHPI_Tensor* tensor) {
  return static_cast<T*>(qhpi_tensor_raw_data(tensor));
}

// --- Add: saturating, a scalar kernel and one for HVX ----------------------------------------------------------------

void addScalar(const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* y, std::size_t size) {
#pragma clang loop vectorize(disable)
  for (std::size_t i = 0; i < size; ++i) {
    const unsigned sum = a[i] + b[i];
    y[i] = static_cast<std::uint8_t>(sum > 255 ? 255 : sum);
  }
}

std::uint32_t addOnMain(QHPI_RuntimeHandle*, std::uint32_t, Outputs out, std::uint32_t, Inputs in) {
  addScalar(data<std::uint8_t>(in[0]), data<std::uint8_t>(in[1]), data<std::uint8_t>(out[0]), count(out[0]));
  return QHPI_Success;
}

std::uint32_t addOnHvx(QHPI_RuntimeHandle*, std::uint32_t, Outputs out, std::uint32_t, Inputs in) {
  const std::uint8_t* a = data<std::uint8_t>(in[0]);
  const std::uint8_t* b = data<std::uint8_t>(in[1]);
  std::uint8_t* y = data<std::uint8_t>(out[0]);
  std::size_t left = count(out[0]);
#ifdef __hexagon__
  // One element before the vectors, to make all of them unaligned.
  if (left > 0) {
    addScalar(a++, b++, y++, 1);
    --left;
  }
  for (; left >= sizeof(HVX_Vector); left -= sizeof(HVX_Vector)) {
    HVX_UVector* const to = reinterpret_cast<HVX_UVector*>(y);
    *to = Q6_Vub_vadd_VubVub_sat(*reinterpret_cast<const HVX_UVector*>(a), *reinterpret_cast<const HVX_UVector*>(b));
    a += sizeof(HVX_Vector);
    b += sizeof(HVX_Vector);
    y += sizeof(HVX_Vector);
  }
#endif
  addScalar(a, b, y, left);
  return QHPI_Success;
}

// --- Seen: the properties of HTP's tensors, as numbers ---------------------------------------------------------------

std::uint32_t seen(QHPI_RuntimeHandle* handle, std::uint32_t outputs, Outputs out, std::uint32_t inputs, Inputs in) {
  std::int32_t* to = data<std::int32_t>(out[0]);
  std::int32_t* const end = to + count(out[0]);
  auto say = [&](std::uint32_t value) {
    if (to < end) *to++ = static_cast<std::int32_t>(value);
  };
  say(outputs);
  say(inputs);
  say(qhpi_num_slices(handle));
  say(qhpi_slice_number(handle));
  for (std::uint32_t i = 0; i < inputs; ++i) {
    const QHPI_Shape shape = qhpi_tensor_shape(in[i]);
    const QHPI_Quant_Parameters quant = qhpi_tensor_quant_parameters(in[i]);
    std::uint32_t step;
    std::memcpy(&step, &quant.stepsize, sizeof step);
    say(qhpi_tensor_type(in[i]));
    say(qhpi_tensor_layout(in[i]));
    say(qhpi_tensor_placement(in[i]));
    say(static_cast<std::uint32_t>(quant.zero_offset));
    say(step);
    say(shape.rank);
    for (std::uint32_t axis = 0; axis < shape.rank; ++axis) say(shape.dims[axis]);
    const std::size_t bytes = count(in[i]) * qhpi_element_type_size(qhpi_tensor_type(in[i]));
    for (std::size_t byte = 0; byte < bytes; ++byte) say(data<std::uint8_t>(in[i])[byte]);
    say(qhpi_tensor_block_table_length(in[i]));
    say(qhpi_tensor_block_table(in[i])[0] == qhpi_tensor_raw_data(in[i]));
    say(qhpi_tensor_padding(in[i]).rank);
    say(qhpi_tensor_padded_shape(in[i]).dims[shape.rank - 1]);
  }
  while (to < end) *to++ = -1;
  return QHPI_Success;
}

// --- Slices: each adds its number plus one to its part, and waits until all others have started ----------------------

std::uint32_t slices(QHPI_RuntimeHandle* handle, std::uint32_t, Outputs out, std::uint32_t, Inputs in) {
  const std::uint32_t number = qhpi_slice_number(handle);
  const std::uint32_t all = qhpi_num_slices(handle);
  auto* const here = static_cast<std::atomic<std::uint32_t>*>(qhpi_sync_block(handle));
  here->fetch_add(1);
  while (here->load() < all) {
  }
  const std::size_t size = count(out[0]);
  for (std::size_t i = size * number / all; i < size * (number + 1) / all; ++i) {
    data<std::int32_t>(out[0])[i] = data<std::int32_t>(in[0])[i] + static_cast<std::int32_t>(number + 1);
  }
  return QHPI_Success;
}

// --- Prepared: reads its parameter once ---------------------------------------------------------------------------

struct Ready {
  const QHPI_Tensor* input;
  QHPI_Tensor* output;
  std::int32_t k;
  std::int32_t first;
};

std::uint32_t prepare(QHPI_RuntimeHandle*, void* room, std::uint32_t, Outputs out, std::uint32_t, Inputs in) {
  Ready* const ready = static_cast<Ready*>(room);
  ready->input = in[0];
  ready->output = out[0];
  ready->k = data<std::int32_t>(in[1])[0];
  ready->first = data<std::int32_t>(in[0])[0];
  return ready->k == -1 ? QHPI_ErrorFatal : QHPI_Success;
}

std::uint32_t runPrepared(QHPI_RuntimeHandle*, const void* room) {
  const Ready* const ready = static_cast<const Ready*>(room);
  std::int32_t* const y = data<std::int32_t>(ready->output);
  for (std::size_t i = 0; i < count(ready->output); ++i) y[i] = data<std::int32_t>(ready->input)[i] + ready->k;
  y[0] = ready->first;  // nothing was written yet
  return QHPI_Success;
}

// --- Choosy: one kernel for long rows, another for the rest -------------------------------------------------------

std::uint32_t isLong(const QHPI_Op* op, const std::uint32_t inputs, Inputs in) {
  const QHPI_Shape shape = qhpi_tensor_shape(in[0]);
  if (inputs != 1 || qhpi_op_num_inputs(op) != 1 || qhpi_op_num_outputs(op) != 1) return 0;
  if (std::strcmp(qhpi_op_name(op), "Raw::Choosy") != 0 || qhpi_op_is_constant(op)) return 0;
  return qhpi_op_output(op, 0).shape.dims[shape.rank - 1] > 8;
}

template <std::int32_t Answer>
std::uint32_t answer(QHPI_RuntimeHandle*, std::uint32_t, Outputs out, std::uint32_t, Inputs) {
  for (std::size_t i = 0; i < count(out[0]); ++i) data<std::int32_t>(out[0])[i] = Answer;
  return QHPI_Success;
}

// --- Wrong: the first number selects the fault --------------------------------------------------------------------

std::uint32_t wrong(QHPI_RuntimeHandle*, std::uint32_t, Outputs out, std::uint32_t, Inputs in) {
  std::int32_t* const y = data<std::int32_t>(out[0]);
  volatile std::int32_t how = data<std::int32_t>(in[0])[0];
  switch (how) {
    case 1: *reinterpret_cast<volatile int*>(16) = 1; break;
    case 2:
      while (how == 2) {
      }
      break;
    case 3: return udo::error("the third way: %d", 42) == udo::ok ? QHPI_Success : QHPI_ErrorFatal;
    case 4: y[0] = std::vector<std::int32_t>(static_cast<std::size_t>(how)).at(7); break;
    case 5:
#ifdef __hexagon__
    {
      alignas(128) static HVX_Vector sum;
      sum = Q6_Vqf32_vadd_VsfVsf(sum, sum);
      std::memcpy(y, &sum, sizeof *y);
    }
#endif
    break;
    case 6: y[count(out[0])] = 1; break;
    case 7: std::exit(3);
    case 8:
      std::printf("to stdout\n");
      std::fflush(stdout);
      udo::log(QNN_LOG_LEVEL_INFO, "to the log");
      y[0] = 8;
      break;
    case 9: y[-1] = 1; break;
    default: break;
  }
  return QHPI_Success;
}

// --- the tables -----------------------------------------------------------------------------------------------------

QHPI_Tensor_Signature_v1 any4[] = {{QHPI_Any_Element_Type, QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_DDR_OR_TCM},
                                   {QHPI_Any_Element_Type, QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_DDR_OR_TCM},
                                   {QHPI_Any_Element_Type, QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_DDR_OR_TCM}};
QHPI_Tensor_Signature_v1 any5[] = {{QHPI_Any_Element_Type, QHPI_Layout_Flat5, QHPI_Storage_Direct, QHPI_MemLoc_DDR_OR_TCM},
                                   {QHPI_Any_Element_Type, QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_DDR_OR_TCM},
                                   {QHPI_Any_Element_Type, QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_DDR_OR_TCM}};

QHPI_Tensor_Signature_v1 ddr4[] = {{QHPI_Any_Element_Type, QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_DDR_Only},
                                   {QHPI_Any_Element_Type, QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_DDR_Only}};

QHPI_Kernel_v1 record(const char* name, QHPI_Plugin_Function function, std::uint32_t inputs, unsigned char unit,
                      QHPI_Tensor_Signature_v1* in = any4) {
  QHPI_Kernel_v1 kernel = {};
  kernel.function_name = name;
  kernel.function = function;
  kernel.resources = unit;
  kernel.min_inputs = inputs;
  kernel.input_signature = in;
  kernel.min_outputs = 1;
  kernel.output_signature = any4;
  return kernel;
}

QHPI_Kernel_v1 kernels[10];
QHPI_OpInfo_v1 ops[7];
const char* names[] = {"Add", "Seen", "Slices", "Prepared", "PreparedInDdr", "Choosy", "Wrong"};

Qnn_ErrorHandle_t nothing(QnnOpPackage_GlobalInfrastructure_t) { return QNN_SUCCESS; }
Qnn_ErrorHandle_t end() { return QNN_SUCCESS; }
Qnn_ErrorHandle_t valid(Qnn_OpConfig_t) { return QNN_SUCCESS; }
Qnn_ErrorHandle_t make(QnnOpPackage_GraphInfrastructure_t, QnnOpPackage_Node_t, QnnOpPackage_OpImpl_t*) { return 1000; }
Qnn_ErrorHandle_t unmake(QnnOpPackage_OpImpl_t) { return 1000; }
Qnn_ErrorHandle_t info(const QnnOpPackage_Info_t** found) {
  static QnnOpPackage_Info_t facts = {};
  facts.packageName = "Raw";
  facts.operationNames = names;
  facts.numOperations = 7;
  *found = &facts;
  return QNN_SUCCESS;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const char* qhpi_init(void) {
  kernels[0] = record("Add_main", addOnMain, 2, QHPI_RESOURCE_MAIN);
  kernels[1] = record("Add_hvx", addOnHvx, 2, QHPI_RESOURCE_HVX);
  kernels[2] = record("Seen_4", seen, 3, QHPI_RESOURCE_HVX);
  kernels[3] = record("Seen_5", seen, 3, QHPI_RESOURCE_HVX, any5);
  kernels[4] = record("Slices", slices, 1, QHPI_RESOURCE_HVX);
  kernels[4].multithreaded = 1;
  kernels[4].sync_block_size = 64;
  kernels[5] = record("Prepared", nullptr, 2, QHPI_RESOURCE_HVX);
  kernels[5].precomputed_data_size = sizeof(Ready);
  kernels[5].do_precomputation_function = prepare;
  kernels[5].function_with_precomputed_data = runPrepared;
  kernels[6] = kernels[5];
  kernels[6].function_name = "PreparedInDdr";
  kernels[6].input_signature = kernels[6].output_signature = ddr4;
  kernels[7] = record("Choosy_long", answer<1>, 1, QHPI_RESOURCE_HVX);
  kernels[7].predicate = isLong;
  kernels[8] = record("Choosy_any", answer<2>, 1, QHPI_RESOURCE_HVX);
  kernels[9] = record("Wrong", wrong, 1, QHPI_RESOURCE_HVX);
  static const char* qualified[] = {"Raw::Add",           "Raw::Seen",   "Raw::Slices", "Raw::Prepared",
                                    "Raw::PreparedInDdr", "Raw::Choosy", "Raw::Wrong"};
  const std::uint32_t first[] = {0, 2, 4, 5, 6, 7, 9, 10};
  for (std::size_t i = 0; i < 7; ++i) {
    ops[i].name = qualified[i];
    ops[i].kernels = kernels + first[i];
    ops[i].num_kernels = first[i + 1] - first[i];
  }
  qhpi_register_ops_v1(7, ops, "Raw");
  return "Raw";
}

extern "C" __attribute__((visibility("default"))) Qnn_ErrorHandle_t RawInterfaceProvider(QnnOpPackage_Interface_t* to) {
  to->interfaceVersion = {1, 4, 0};
  to->v1_4 = {nothing, end, info, valid, make, unmake, udo::logInitialize, udo::logSetLevel, end};
  return QNN_SUCCESS;
}
