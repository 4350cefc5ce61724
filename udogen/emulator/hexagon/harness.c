/* Registers the package, chooses a kernel, and runs it as HTP would. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

#define CHANCE 0xa5 /* what memory holds that HTP does not clear */
#define STACK (1u << 20)

const char* qhpi_init(void);
/* The package's own; the compiler gets its name as a macro. */
Qnn_ErrorHandle_t UDOGEN_PROVIDER(QnnOpPackage_Interface_t* interface);

static Request request;
static QHPI_Tensor* outputs[MAX_TENSORS];
static const QHPI_Tensor* inputs[MAX_TENSORS];

/* --- tensors ------------------------------------------------------------------------------------------------------ */

/* HTP fills ranks below 4 with ones in front. */
static void lay_out(QHPI_Tensor* tensor, uint32_t kind, uint32_t number) {
  QHPI_Shape* shape = &tensor->shape;
  while (shape->rank < 4) {
    memmove(shape->dims + 1, shape->dims, shape->rank * sizeof *shape->dims);
    shape->dims[0] = 1;
    ++shape->rank;
  }
  tensor->data = guarded_memory(kind, number, tensor->size, 0);
  guard_content(tensor->data, tensor->given);
  tensor->block = tensor->data;
  tensor->layout = shape->rank == 4 ? QHPI_Layout_Flat4 : shape->rank == 5 ? QHPI_Layout_Flat5 : QHPI_Layout_Flat6;
  tensor->placement = QHPI_MemLoc_TCM_Only;
}

static void place(QHPI_Tensor* tensor, const QHPI_Tensor_Signature_v1* signatures, uint32_t known, uint32_t index) {
  if (known == 0) return;
  const unsigned char where = signatures[index < known ? index : known - 1].mem_placement;
  tensor->placement = where == QHPI_MemLoc_DDR_Only ? QHPI_MemLoc_DDR_Only : QHPI_MemLoc_TCM_Only;
}

/* --- one execution ------------------------------------------------------------------------------------------------ */

typedef struct {
  const QHPI_Kernel_v1* kernel;
  const void* precomputed;
  QHPI_RuntimeHandle handle;
  uint32_t status;
} Call;

__attribute__((noinline, used)) uint32_t udogen_call_kernel(Call* call) {
  uint32_t status;
  udogen_count_begin();
  if (call->precomputed != NULL) {
    status = call->kernel->function_with_precomputed_data(&call->handle, call->precomputed);
  } else {
    status = call->kernel->function(&call->handle, request.num_outputs, outputs, request.num_inputs, inputs);
  }
  udogen_count_end();
  return status;
}

static void* run_slice(void* given) {
  Call* call = given;
  call->status = udogen_call_kernel(call);
  return NULL;
}

/* One thread for each slice: a kernel may wait for the others. */
static uint32_t run_slices(Call* calls, uint32_t slices) {
  pthread_t threads[MAX_SLICES];
  pthread_attr_t attributes;
  if (slices == 1) return udogen_call_kernel(&calls[0]);
  if (pthread_attr_init(&attributes) != 0 || pthread_attr_setstacksize(&attributes, STACK) != 0) fail("no threads");
  for (uint32_t i = 0; i < slices; ++i) {
    if (pthread_create(&threads[i], &attributes, run_slice, &calls[i]) != 0) fail("a thread cannot be created");
  }
  uint32_t status = QHPI_Success;
  for (uint32_t i = 0; i < slices; ++i) {
    pthread_join(threads[i], NULL);
    if (status == QHPI_Success) status = calls[i].status;
  }
  return status;
}

/* HTP hands out memory for it that is aligned to 8 bytes only, and does not clear it. */
static void* precompute(const QHPI_Kernel_v1* kernel) {
  const size_t size = (size_t)kernel->precomputed_data_size;
  QHPI_RuntimeHandle handle = {1, 0, NULL};
  if (kernel->function_with_precomputed_data == NULL) fail("%s precomputes, and has no function for that", request.op);
  unsigned char* const made = guarded_memory(GUARD_MEMORY, MEMORY_PRECOMPUTED, size, 8);
  memset(made, CHANCE, size);
  guards_open(0);
  wire_text_record(RECORD_PHASE, "precompute");
  const uint32_t status = kernel->do_precomputation_function(&handle, made, request.num_outputs, outputs,
                                                            request.num_inputs, inputs);
  if (status != QHPI_Success) {
    wire_record(RECORD_STATUS, &status, sizeof status, NULL, 0);
    _exit(2);
  }
  guards_compare_bytes();
  return made;
}

static void execute(const QHPI_Kernel_v1* kernel, const void* precomputed, void* sync_block, uint32_t number) {
  static Call calls[MAX_SLICES];
  const uint32_t slices = kernel->multithreaded ? request.slices : 1;
  guards_open(number);
  for (uint32_t i = 0; i < request.num_inputs; ++i) memcpy(inputs[i]->data, inputs[i]->given, inputs[i]->size);
  if (sync_block != NULL) memset(sync_block, 0, kernel->sync_block_size);
  for (uint32_t i = 0; i < slices; ++i) calls[i] = (Call){kernel, precomputed, {slices, i, sync_block}, 0};
  guards_close();
  const uint64_t begun = nanoseconds();
  const uint32_t status = run_slices(calls, slices);
  const uint64_t took = nanoseconds() - begun;
  if (status != QHPI_Success) {
    wire_record(RECORD_STATUS, &status, sizeof status, NULL, 0);
    _exit(2);
  }
  guards_compare();
  wire_record(RECORD_TIME, &took, sizeof took, NULL, 0);
}

int main(int argc, char** argv) {
  if (argc != 3) return 3;
  wire_open(argv[1], argv[2]);
  wire_read(&request);
  guards_watch();
  for (uint32_t i = 0; i < request.num_inputs; ++i) lay_out(&request.inputs[i], GUARD_INPUT, i);
  for (uint32_t i = 0; i < request.num_outputs; ++i) lay_out(&request.outputs[i], GUARD_OUTPUT, i);

  wire_text_record(RECORD_PHASE, "register the op package");
  QnnOpPackage_Interface_t interface;
  memset(&interface, 0, sizeof interface);
  if (UDOGEN_PROVIDER(&interface) != QNN_SUCCESS) fail("the interface provider of the package returns no interface");
  give_log(&interface);
  if (qhpi_init() == NULL) fail("qhpi_init returned no package name");
  const QHPI_OpInfo_v1* op = find_op(request.op);

  wire_text_record(RECORD_PHASE, "choose a kernel");
  drop_left_out(op, &request);
  const QHPI_Kernel_v1* kernel = find_kernel(op, &request);
  const uint32_t resources = kernel->resources;
  const char* name = kernel->function_name ? kernel->function_name : "";
  wire_record(RECORD_KERNEL, &resources, sizeof resources, name, (uint32_t)strlen(name));
  for (uint32_t i = 0; i < request.num_inputs; ++i) {
    place(&request.inputs[i], kernel->input_signature, kernel->min_inputs, i);
    QHPI_Tensor* const input = &request.inputs[i];
    /* At precomputation HTP has filled what stays in DDR; the rest, constants too, comes into TCM only later. */
    if (input->constant && input->placement == QHPI_MemLoc_DDR_Only) memcpy(input->data, input->given, input->size);
    inputs[i] = input;
  }
  for (uint32_t i = 0; i < request.num_outputs; ++i) {
    place(&request.outputs[i], kernel->output_signature, kernel->min_outputs, i);
    outputs[i] = &request.outputs[i];
  }
  if (kernel->source_destructive && request.num_inputs > 0 && request.num_outputs > 0 &&
      inputs[0]->size == outputs[0]->size) {
    outputs[0]->data = inputs[0]->data;
    outputs[0]->block = outputs[0]->data;
    guard_as_output(outputs[0]->data, 0);
  }
  const void* precomputed = kernel->do_precomputation_function != NULL ? precompute(kernel) : NULL;
  if (precomputed == NULL && kernel->function == NULL) fail("kernel %s has no function", name);

  wire_text_record(RECORD_PHASE, "execute");
  void* const sync_block = kernel->sync_block_size == 0 ? NULL
      : guarded_memory(GUARD_MEMORY, MEMORY_SYNC_BLOCK, kernel->sync_block_size, 0);
  for (uint32_t i = 0; i < request.loops; ++i) execute(kernel, precomputed, sync_block, i);
  guards_say();
  for (uint32_t i = 0; i < request.num_outputs; ++i) wire_record(RECORD_OUTPUT, outputs[i]->data, outputs[i]->size, NULL, 0);
  wire_record(RECORD_DONE, NULL, 0, NULL, 0);
  return 0;
}
