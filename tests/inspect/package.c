/* A minimal op package; macros make it HTP or core style, or break one part of it.
 * Compiled for this machine and, with udogen's own headers only, for others. */
#include "HTP/core/qhpi.h"
#include "QnnOpPackage.h"

#ifndef PROVIDER
#define PROVIDER ToyInterfaceProvider
#endif
#ifndef EXPORT
#define EXPORT __attribute__((visibility("default")))
#endif

static const char* const operations[] = {"Copy"};
static const Qnn_ApiVersion_t api = {{2, 10, 0}, {1, 1, 0}};
static const QnnOpPackage_Info_t info = {.packageName = "Toy", .operationNames = (const char**)operations,
                                         .numOperations = 1, .sdkApiVersion = &api};

static Qnn_ErrorHandle_t initialize(QnnOpPackage_GlobalInfrastructure_t infrastructure) {
  (void)infrastructure;
  return 0;
}
static Qnn_ErrorHandle_t terminate(void) { return 0; }
static Qnn_ErrorHandle_t getInfo(const QnnOpPackage_Info_t** answer) {
  *answer = &info;
  return 0;
}
static Qnn_ErrorHandle_t validate(Qnn_OpConfig_t op) {
  (void)op;
  return 0;
}
static Qnn_ErrorHandle_t make(QnnOpPackage_GraphInfrastructure_t graph, QnnOpPackage_Node_t node,
                              QnnOpPackage_OpImpl_t* op) {
  (void)graph, (void)node, (void)op;
  return 1000;
}
static Qnn_ErrorHandle_t drop(QnnOpPackage_OpImpl_t op) {
  (void)op;
  return 0;
}
static Qnn_ErrorHandle_t logInitialize(QnnLog_Callback_t callback, QnnLog_Level_t level) {
  (void)callback, (void)level;
  return 0;
}
static Qnn_ErrorHandle_t logSetLevel(QnnLog_Level_t level) {
  (void)level;
  return 0;
}

#ifndef NO_PROVIDER
EXPORT Qnn_ErrorHandle_t PROVIDER(QnnOpPackage_Interface_t* answer) {
  answer->interfaceVersion.major = 1;
  answer->interfaceVersion.minor = 4;
  answer->interfaceVersion.patch = 0;
  answer->v1_4.init = initialize;
  answer->v1_4.terminate = terminate;
  answer->v1_4.getInfo = getInfo;
  answer->v1_4.validateOpConfig = validate;
  answer->v1_4.createOpImpl = make;
  answer->v1_4.freeOpImpl = drop;
  answer->v1_4.logInitialize = logInitialize;
  answer->v1_4.logSetLevel = logSetLevel;
  answer->v1_4.logTerminate = terminate;
  return 0;
}
#endif
#ifdef SECOND
EXPORT Qnn_ErrorHandle_t SecondInterfaceProvider(QnnOpPackage_Interface_t* answer) { return PROVIDER(answer); }
#endif

#ifdef QHPI
static uint32_t copy(QHPI_RuntimeHandle* handle, uint32_t outputs, QHPI_Tensor** out, uint32_t inputs,
                     const QHPI_Tensor* const* in) {
  (void)handle, (void)outputs, (void)out, (void)inputs, (void)in;
  return 0;
}
static float cost(uint32_t inputs, const QHPI_Tensor* const* in) {
  (void)inputs, (void)in;
  return 1.0f;
}
static uint32_t always(const QHPI_Op* op, uint32_t inputs, const QHPI_Tensor* const* in) {
  (void)op, (void)inputs, (void)in;
  return 1;
}
static const QHPI_Op* same(const QHPI_Op* op) { return op; }

#ifndef EXPORT_INIT
#define EXPORT_INIT EXPORT
#endif
#ifdef UNKNOWN_FUNCTION
extern void qhpi_of_tomorrow(void);
#endif
static QHPI_Tensor_Signature_v1 flat = {QHPI_QUInt8, QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_DDR_OR_TCM};
static QHPI_Tensor_Signature_v1 any[] = {
    {QHPI_Any_Element_Type, QHPI_Layout_Crouton_16, QHPI_Storage_Indirect, QHPI_MemLoc_TCM_Only},
    {99, 98, 97, 96}};
#ifdef DUPLICATE
#define SECOND_KERNEL "copy_u8"
#else
#define SECOND_KERNEL "copy_any"
#endif
static QHPI_Kernel_v1 kernels[] = {
    {.function_name = "copy_u8", .function = copy, .resources = QHPI_RESOURCE_HVX, .min_inputs = 1,
     .input_signature = &flat, .min_outputs = 1, .output_signature = &flat, .cost_function = cost},
    {.function_name = SECOND_KERNEL, .function = copy, .resources = QHPI_RESOURCE_HVX | QHPI_RESOURCE_HMX,
     .multithreaded = 1, .variable_outputs = 1, .min_inputs = 2, .input_signature = any, .min_outputs = 1,
     .output_signature = &flat, .predicate = always, .sync_block_size = 64}};
static QHPI_OpInfo_v1 ops[] = {{.name = "Toy::Copy", .num_kernels = 2, .kernels = kernels, .late_rewrite = same}};

#ifdef FAILS_AT_START  /* the linker makes _init the initializer */
EXPORT void _init(void) { *(volatile int*)0 = 1; }
#endif
#ifdef STARTS_A_THREAD
extern int qurt_thread_create(void);
EXPORT void _init(void) { qurt_thread_create(); }
#endif

EXPORT_INIT const char* qhpi_init(void) {
#ifdef NO_OPS
  return "Toy";
#endif
#ifdef CRASHES
  *(volatile int*)0 = 1;
#endif
#ifdef TOO_MANY
  ops[0].num_kernels = 0x7fffffff;
#endif
  qhpi_register_ops_v1(1, ops, "Toy");
#ifdef UNKNOWN_FUNCTION
  qhpi_of_tomorrow();
#endif
  return "Toy";
}
#endif

#ifdef CORE
extern void _ZN4hnnx11register_opEPKc(const char* name);
EXPORT int op_pkg_init(void* package) {
  (void)package;
  _ZN4hnnx11register_opEPKc("Toy::Copy");
  return 0;
}
#endif
#ifdef BUILD_ID
EXPORT const char udogen_qnn_sdk_build_id[] = BUILD_ID;
#endif
#ifdef SKEL
EXPORT int qnn_9_99_9_skel_handle_invoke(void) { return 0; }
extern int strcmp(const char* a, const char* b);
extern void HAP_debug_v2(int level, const char* file, int line, const char* format, ...);
EXPORT QHPI_StatusCode qhpi_register_ops_v1(uint32_t n, QHPI_OpInfo_v1* rows, const char* package) {
  for (uint32_t op = 0; op < n; ++op) {
    for (uint32_t at = 1; at < rows[op].num_kernels; ++at) {
      if (strcmp(rows[op].kernels[0].function_name, rows[op].kernels[at].function_name) != 0) continue;
      HAP_debug_v2(2, __FILE__, __LINE__, "ERROR: kernel %u of %s has duplication, %.1f", at, package, 0.5);
      return QHPI_RegistrationError;
    }
  }
  return 0;
}
#ifdef SKEL_FAILS
EXPORT void _init(void) { *(volatile int*)0 = 1; }
#endif
EXPORT const char release[] = "v2.99.0.991231235959";
extern void HAP_mem_thing(void);
extern void* __wrap_malloc(__SIZE_TYPE__ size);
extern void HAP_perhaps(void) __attribute__((weak));
EXPORT void uses(void) {
  HAP_mem_thing();
  __wrap_malloc(4);
  if (HAP_perhaps) HAP_perhaps();
}
#endif
#ifdef NEEDS_WEAK
extern void HAP_perhaps(void);
EXPORT void wants(void) { HAP_perhaps(); }
#endif
#if defined(NEEDS_HAP) && !defined(SKEL)
extern void HAP_mem_thing(void);
EXPORT void uses(void) { HAP_mem_thing(); }
#endif
#ifdef NEEDS_MALLOC
extern void* malloc(__SIZE_TYPE__ size);
EXPORT void* uses_malloc(void) { return malloc(4); }
#endif
#ifdef MISSING
extern int undefined_symbol(void);
EXPORT int calls(void) { return undefined_symbol(); }
#endif
