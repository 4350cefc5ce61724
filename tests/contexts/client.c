// The minimal client in C: it restores a context binary, executes one graph of it, and reports the time and the
// memory that this takes.  It is the baseline for the overhead of the Python API.
//
//   client RUNTIME BINARY TENSORS LOOPS OUT [LIBRARY PROVIDER [TARGET]]
//
// TENSORS is a text: the graph's name, then a line for each tensor: `in` or `out`, id, data type, bytes, scale, offset,
// rank, dimensions.  OUT receives one line of JSON (the runtime itself writes to stdout).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "QnnInterface.h"

enum { most = 64, deepest = 8 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void need(int fine, const char* what, unsigned long code) {
  if (fine) return;
  fprintf(stderr, "client: %s failed (%lu)\n", what, code);
  exit(1);
}

static long status(const char* name) {
  char line[256];
  long value = -1;
  FILE* file = fopen("/proc/self/status", "r");
  need(file != NULL, "/proc/self/status", 0);
  while (fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, name, strlen(name)) == 0) value = strtol(line + strlen(name) + 1, NULL, 10);
  }
  fclose(file);
  return value;
}

static uint32_t dimensions[2 * most][deepest];
static Qnn_Tensor_t inputs[most], outputs[most];
static uint32_t inputCount, outputCount;

static void readTensors(const char* path, char* graph) {
  FILE* file = fopen(path, "r");
  need(file != NULL && fscanf(file, "%255s", graph) == 1, "reading the tensors", 0);
  char side[8];
  unsigned id, type, rank;
  size_t bytes;
  float scale;
  int offset;
  while (fscanf(file, "%7s %u %u %zu %f %d %u", side, &id, &type, &bytes, &scale, &offset, &rank) == 7) {
    const int in = strcmp(side, "in") == 0;
    need(inputCount < most && outputCount < most && rank <= deepest, "a line of the tensors", id);
    uint32_t* const dims = dimensions[inputCount + outputCount];
    for (unsigned axis = 0; axis < rank; ++axis) need(fscanf(file, "%u", &dims[axis]) == 1, "a dimension", axis);
    Qnn_Tensor_t* const tensor = in ? &inputs[inputCount++] : &outputs[outputCount++];
    tensor->version = QNN_TENSOR_VERSION_1;
    tensor->v1.id = id;
    tensor->v1.name = "";
    tensor->v1.type = in ? QNN_TENSOR_TYPE_APP_WRITE : QNN_TENSOR_TYPE_APP_READ;
    tensor->v1.dataType = (Qnn_DataType_t)type;
    tensor->v1.rank = rank;
    tensor->v1.dimensions = dims;
    tensor->v1.memType = QNN_TENSORMEMTYPE_RAW;
    tensor->v1.quantizeParams.encodingDefinition = scale != 0 ? QNN_DEFINITION_DEFINED : QNN_DEFINITION_UNDEFINED;
    tensor->v1.quantizeParams.quantizationEncoding =
        scale != 0 ? QNN_QUANTIZATION_ENCODING_SCALE_OFFSET : QNN_QUANTIZATION_ENCODING_UNDEFINED;
    tensor->v1.quantizeParams.scaleOffsetEncoding.scale = scale;
    tensor->v1.quantizeParams.scaleOffsetEncoding.offset = offset;
    tensor->v1.clientBuf.data = calloc(1, bytes);
    tensor->v1.clientBuf.dataSize = (uint32_t)bytes;
  }
  fclose(file);
}

int main(int argc, char** argv) {
  const double begin = now();
  need(argc >= 6, "reading the arguments", (unsigned long)argc);
  const long loops = strtol(argv[4], NULL, 10);
  char name[256];
  readTensors(argv[3], name);

  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
  need(library != NULL, dlerror(), 0);
  typedef Qnn_ErrorHandle_t (*Providers)(const QnnInterface_t***, uint32_t*);
  Providers providers;
  *(void**)&providers = dlsym(library, "QnnInterface_getProviders");
  const QnnInterface_t** found = NULL;
  uint32_t count = 0;
  need(providers != NULL && providers(&found, &count) == 0 && count > 0, "QnnInterface_getProviders", count);
  const QnnInterface_ImplementationV2_t qnn = found[0]->v2;

  Qnn_BackendHandle_t backend = NULL;
  Qnn_ErrorHandle_t code = qnn.backendCreate(NULL, NULL, &backend);
  need(code == 0, "backendCreate", code);
  if (argc >= 8) {
    code = qnn.backendRegisterOpPackage(backend, argv[6], argv[7], argc >= 9 ? argv[8] : NULL);
    need(code == 0, "backendRegisterOpPackage", code);
  }
  const double ready = now();

  const int file = open(argv[2], O_RDONLY | O_CLOEXEC);
  struct stat facts;
  need(file >= 0 && fstat(file, &facts) == 0, argv[2], 0);
  const size_t size = (size_t)facts.st_size;
  void* const binary = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
  need(binary != MAP_FAILED, "mmap", size);
  close(file);
  const long before = status("VmHWM");
  Qnn_ContextHandle_t context = NULL;
  code = qnn.contextCreateFromBinary(backend, NULL, NULL, binary, size, &context, NULL);
  need(code == 0, "contextCreateFromBinary", code);
  munmap(binary, size);
  Qnn_GraphHandle_t graph = NULL;
  code = qnn.graphRetrieve(context, name, &graph);
  need(code == 0, "graphRetrieve", code);
  const double restored = now();

  code = qnn.graphExecute(graph, inputs, inputCount, outputs, outputCount, NULL, NULL);
  need(code == 0, "graphExecute", code);
  const double first = now();
  const long peak = status("VmHWM");
  double best = -1.0;  // of ten rounds, to exclude other load of the machine
  for (int round = 0; loops > 0 && round < 10; ++round) {
    const double start = now();
    for (long i = 0; i < loops; ++i) {
      code = qnn.graphExecute(graph, inputs, inputCount, outputs, outputCount, NULL, NULL);
      if (code != 0) break;
    }
    need(code == 0, "graphExecute", code);
    const double each = (now() - start) / (double)loops;
    if (best < 0 || each < best) best = each;
  }

  FILE* const out = fopen(argv[5], "w");
  need(out != NULL, argv[5], 0);
  fprintf(out,
          "{\"begin\": %.9f, \"ready\": %.9f, \"restored\": %.9f, \"first\": %.9f, \"execute\": %.12f,"
          " \"hwm_before\": %ld, \"hwm\": %ld, \"hwm_end\": %ld}\n",
          begin, ready, restored, first, best, before, peak, status("VmHWM"));
  fclose(out);
  qnn.contextFree(context, NULL);
  qnn.backendFree(backend);
  return 0;
}
