/* The functions that the DSP gives to every op: memory, worker threads, VTCM, sizes of outputs. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "dsp.h"

#define STACK (1u << 20)

int dsp_executes;

static DspRequest* request;
static unsigned char* vtcm;
static uint32_t heap_uses;
static uint32_t blocks;
static uint32_t most_workers;
static int operation; /* its address identifies the operation */

void* dsp_operation(void) { return &operation; }
uint32_t dsp_heap_uses(void) { return heap_uses; }
uint32_t dsp_blocks_left(void) { return blocks; }
uint32_t dsp_most_workers(void) { return most_workers; }

static void check(const void* given, const char* function) {
  if (given != &operation) fail("%s was not given what createOperation was given", function);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

void* __real_malloc(size_t size);
void* __real_calloc(size_t number, size_t size);
void* __real_realloc(void* memory, size_t size);

static void seen(void) {
  if (dsp_executes) __atomic_fetch_add(&heap_uses, 1, __ATOMIC_RELAXED);
}

/* The linker sends every call of the package and its libraries here (--wrap). */
void* __wrap_malloc(size_t size) { return seen(), __real_malloc(size); }
void* __wrap_calloc(size_t number, size_t size) { return seen(), __real_calloc(number, size); }
void* __wrap_realloc(void* memory, size_t size) { return seen(), __real_realloc(memory, size); }

static void* counted(void* memory) {
  seen();
  if (memory != NULL) __atomic_fetch_add(&blocks, 1, __ATOMIC_RELAXED);
  return memory;
}

static void* give_aligned(size_t alignment, size_t size) {
  void* memory = NULL;
  if (posix_memalign(&memory, alignment, size) != 0) return NULL;
  memset(memory, 0xcd, size);
  return counted(memory);
}

static void* give(size_t size) {
  void* memory = __real_malloc(size);
  if (memory != NULL) memset(memory, 0xcd, size);
  return counted(memory);
}

static void* give_cleared(size_t number, size_t size) { return counted(__real_calloc(number, size)); }

static void take_back(void* memory) {
  if (memory != NULL) __atomic_fetch_sub(&blocks, 1, __ATOMIC_RELAXED);
  free(memory);
}

static uint32_t vtcm_size(void* given) { return check(given, "udoGetVtcmSize"), request->vtcm; }
static void* vtcm_pointer(void* given) { return check(given, "udoGetVtcmPtr"), vtcm; }

/* It is ordinary memory. */
static uint32_t vtcm_is_real(void* given) { return check(given, "udoVtcmIsReal"), 0; }

/* --- outputs ------------------------------------------------------------------------------------------------------ */

static int set_size(void* given, uint32_t index, uint32_t size) {
  check(given, "udoSetOutputTensorSize");
  if (index >= request->num_outputs || size > request->outputs[index].size) return -1;
  request->outputs[index].set_size = size;
  return 0;
}

/* All layouts are plain here. */
static int no_paddings(void* given, uint32_t index, uint32_t* a, uint32_t* b, uint32_t* c, uint32_t* d, uint32_t* e,
                       uint32_t* f) {
  (void)given, (void)index, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
  return -1;
}

static int no_d32(void* given, uint32_t index, uint32_t batch, uint32_t height, uint32_t a, uint32_t b, uint32_t width,
                  uint32_t c, uint32_t d, uint32_t depth, uint32_t e, uint32_t f, Udo_DataType_t type) {
  (void)given, (void)index, (void)batch, (void)height, (void)a, (void)b, (void)width, (void)c, (void)d, (void)depth;
  (void)e, (void)f, (void)type;
  return -1;
}

/* --- worker threads ----------------------------------------------------------------------------------------------- */

typedef struct {
  workerThread_t work;
  void* data;
} Job;

static void* run_worker(void* given) {
  const Job* job = given;
  udogen_count_begin();
  job->work(&operation, job->data);
  udogen_count_end();
  return NULL;
}

/* Real threads, all at once: a worker may wait for another.  Packets are counted in each, and not while waiting. */
static void run_workers(void* given, uint32_t number, workerThread_t work, void* data) {
  pthread_t threads[MAX_WORKERS];
  pthread_attr_t attributes;
  Job job = {work, data};
  check(given, "udoRunWorkerThreads");
  if (number > MAX_WORKERS) fail("udoRunWorkerThreads was called with %u threads (maximum: %d)", number, MAX_WORKERS);
  if (number > most_workers) most_workers = number;
  udogen_count_end();
  if (pthread_attr_init(&attributes) != 0 || pthread_attr_setstacksize(&attributes, STACK) != 0) fail("no threads");
  for (uint32_t i = 0; i < number; ++i) {
    if (pthread_create(&threads[i], &attributes, run_worker, &job) != 0) fail("a thread cannot be created");
  }
  for (uint32_t i = 0; i < number; ++i) pthread_join(threads[i], NULL);
  pthread_attr_destroy(&attributes);
  udogen_count_begin();
}

Udo_DspGlobalInfrastructure_t* dsp_functions(DspRequest* of) {
  static Udo_DspGlobalInfrastructure_t all;
  const Udo_HexNNv2GlobalInfra_t functions = {set_size,     no_paddings, no_d32,    give_aligned, give,       give_cleared,
                                              take_back,    vtcm_size,   vtcm_pointer, vtcm_is_real, run_workers};
  request = of;
  vtcm = guarded_memory(GUARD_MEMORY, MEMORY_VTCM, request->vtcm, 0);
  all.dspInfraVersion = (Udo_Version_t){API_VERSION_MAJOR, API_VERSION_MINOR, API_VERSION_TEENY};
  all.infraType = UDO_INFRA_HEXNN_V2;
  all.hexNNv2Infra = functions;
  return &all;
}
