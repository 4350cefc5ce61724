// The client of `udogen script --client cpp`: it opens a QNN backend, registers op packages, restores a context binary
// and executes one of its graphs.
//
//   udogen-client --backend libQnnHtp.so --context FILE --graph FILE --output DIR
//                 [--loops N] [--seconds N] [--op-package PATH PROVIDER TARGET]...
//
// TARGET may be `-`: none.  udogen writes the file of --graph: `graph NAME`, then a line
// for each tensor:
//
//   in|out ID TYPE BYTES SCALE OFFSET FILE RANK DIMENSIONS...
//
// Inputs are read from inputs/FILE; the outputs of the last of --loops executions are written to DIR/FILE.  Output
// buffers are filled first, so that elements that an op does not write are not zeros.
// SIGALRM ends it when the executions take more than --seconds, or everything else a minute more.
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "QnnInterface.h"

enum { MOST = 256, DEEPEST = 16, LONGEST = 4096, FILLED = 0x5A, STARTING = 60 };

static const char *runtime_name = "-";
static const char *const PROVIDERS = "QnnInterface_getProviders";

static void fail(const char *format, ...) {
  va_list rest;
  va_start(rest, format);
  fflush(stdout);
  fputs("udogen-client: ", stderr);
  vfprintf(stderr, format, rest);
  fputc('\n', stderr);
  va_end(rest);
  _Exit(1);  // without the exit handlers of libraries: that of libQnnHtp crashes if it is only partly initialized
}

// Fails with the error number of QNN, which `udogen explain` explains.
static void check(Qnn_ErrorHandle_t code, const char *what) {
  if (code != QNN_SUCCESS) fail("%s failed with %lu", what, (unsigned long)(code & 0xFFFF));
}

static void log_line(const char *format, QnnLog_Level_t level, uint64_t timestamp, va_list rest) {
  (void)timestamp;
  fflush(stdout);
  fprintf(stderr, "%s: ", level == QNN_LOG_LEVEL_ERROR ? "qnn error" : "qnn");
  vfprintf(stderr, format, rest);
  const size_t length = strlen(format);
  if (length == 0 || format[length - 1] != '\n') fputc('\n', stderr);
}

typedef struct {
  const char *path, *provider, *target;
} Package;

typedef struct {
  const char *backend, *context, *graph, *output;
  long loops, seconds;  // seconds: 0 means unlimited
  Package packages[MOST];
  int package_count;
} Options;

typedef struct {
  Qnn_Tensor_t tensors[MOST];
  char files[MOST][LONGEST / 16];
  uint32_t dimensions[MOST][DEEPEST];
  uint32_t count;
} Side;

static Side inputs, outputs;
static char graph_name[LONGEST];

// --- options -------------------------------------------------------------------------------------------------------

static long number(const char *text, const char *option) {
  char *end = NULL;
  const long value = strtol(text, &end, 10);
  if (*text == '\0' || *end != '\0' || value < 0) fail("%s %s: not a number", option, text);
  return value;
}

static Options read_arguments(int argc, char **argv) {
  Options options;
  memset(&options, 0, sizeof options);
  options.loops = 1;
  for (int at = 1; at < argc;) {
    const char *const option = argv[at++];
    const int packages = strcmp(option, "--op-package") == 0;
    if (argc - at < (packages ? 3 : 1)) fail("%s: its value is missing", option);
    if (packages) {
      if (options.package_count == MOST) fail("more than %d op packages", MOST);
      const Package one = {argv[at], argv[at + 1], strcmp(argv[at + 2], "-") == 0 ? NULL : argv[at + 2]};
      options.packages[options.package_count++] = one;
      at += 3;
      continue;
    }
    const char *const value = argv[at++];
    if (strcmp(option, "--backend") == 0) options.backend = value;
    else if (strcmp(option, "--context") == 0) options.context = value;
    else if (strcmp(option, "--graph") == 0) options.graph = value;
    else if (strcmp(option, "--output") == 0) options.output = value;
    else if (strcmp(option, "--loops") == 0) options.loops = number(value, option);
    else if (strcmp(option, "--seconds") == 0) options.seconds = number(value, option);
    else fail("unknown option %s", option);
  }
  if (!options.backend || !options.context || !options.graph || !options.output)
    fail("--backend, --context, --graph and --output are needed");
  return options;
}

static void read_graph(const char *path) {
  FILE *const file = fopen(path, "r");
  if (file == NULL) fail("%s: %s", path, strerror(errno));
  if (fscanf(file, "graph %4095[^\n]", graph_name) != 1) fail("%s does not begin with the name of a graph", path);
  char side[4], name[LONGEST / 16];
  unsigned id, type, rank;
  size_t bytes;
  float scale;
  int offset;
  while (fscanf(file, " %3s %u %u %zu %f %d %255s %u", side, &id, &type, &bytes, &scale, &offset, name, &rank) == 8) {
    Side *const into = strcmp(side, "in") == 0 ? &inputs : &outputs;
    if (into->count == MOST || rank > DEEPEST) fail("%s: too many tensors, or dimensions of one", path);
    const uint32_t at = into->count++;
    for (unsigned axis = 0; axis < rank; ++axis)
      if (fscanf(file, "%u", &into->dimensions[at][axis]) != 1) fail("%s: a dimension of %s is missing", path, name);
    memcpy(into->files[at], name, sizeof name);
    Qnn_Tensor_t *const tensor = &into->tensors[at];
    tensor->version = QNN_TENSOR_VERSION_1;
    tensor->v1.id = id;
    tensor->v1.name = into->files[at];
    tensor->v1.type = into == &inputs ? QNN_TENSOR_TYPE_APP_WRITE : QNN_TENSOR_TYPE_APP_READ;
    tensor->v1.dataType = (Qnn_DataType_t)type;
    tensor->v1.rank = rank;
    tensor->v1.dimensions = into->dimensions[at];
    tensor->v1.memType = QNN_TENSORMEMTYPE_RAW;
    tensor->v1.quantizeParams.encodingDefinition = scale != 0 ? QNN_DEFINITION_DEFINED : QNN_DEFINITION_UNDEFINED;
    tensor->v1.quantizeParams.quantizationEncoding =
        scale != 0 ? QNN_QUANTIZATION_ENCODING_SCALE_OFFSET : QNN_QUANTIZATION_ENCODING_UNDEFINED;
    tensor->v1.quantizeParams.scaleOffsetEncoding.scale = scale;
    tensor->v1.quantizeParams.scaleOffsetEncoding.offset = offset;
    tensor->v1.clientBuf.data = calloc(bytes ? bytes : 1, 1);
    tensor->v1.clientBuf.dataSize = (uint32_t)bytes;
    if (tensor->v1.clientBuf.data == NULL) fail("no memory for %zu bytes of %s", bytes, name);
  }
  if (!feof(file) || outputs.count == 0) fail("%s is damaged", path);
  fclose(file);
}

// --- files -----------------------------------------------------------------------------------------------------------

static void *read_all(const char *path, size_t *size) {
  FILE *const file = fopen(path, "rb");
  struct stat facts;
  if (file == NULL || fstat(fileno(file), &facts) != 0) fail("%s: %s", path, strerror(errno));
  *size = (size_t)facts.st_size;
  void *const data = malloc(*size ? *size : 1);
  if (data == NULL || fread(data, 1, *size, file) != *size) fail("%s cannot be read", path);
  fclose(file);
  return data;
}

static void read_inputs(void) {
  for (uint32_t at = 0; at < inputs.count; ++at) {
    char path[LONGEST];
    snprintf(path, sizeof path, "inputs/%s", inputs.files[at]);
    size_t size = 0;
    void *const data = read_all(path, &size);
    const Qnn_ClientBuffer_t buffer = inputs.tensors[at].v1.clientBuf;
    if (size != buffer.dataSize) fail("%s has %zu bytes, the graph takes %u", path, size, buffer.dataSize);
    memcpy(buffer.data, data, size);
    free(data);
  }
}

static void write_outputs(const char *folder) {
  char path[LONGEST];
  for (uint32_t at = 0; at < outputs.count; ++at) {
    snprintf(path, sizeof path, "%s/%s", folder, outputs.files[at]);
    const Qnn_ClientBuffer_t buffer = outputs.tensors[at].v1.clientBuf;
    FILE *const file = fopen(path, "wb");
    if (file == NULL || fwrite(buffer.data, 1, buffer.dataSize, file) != buffer.dataSize || fclose(file) != 0)
      fail("%s cannot be written: %s", path, strerror(errno));
  }
}

// --- QNN -------------------------------------------------------------------------------------------------------------

static QnnInterface_ImplementationV2_t open_backend(const char *library) {
  // RTLD_GLOBAL, because op packages of HTP call functions of the backend.
  void *const handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
  if (handle == NULL) fail("%s", dlerror());
  Qnn_ErrorHandle_t (*providers)(const QnnInterface_t ***, uint32_t *) = NULL;
  *(void **)&providers = dlsym(handle, PROVIDERS);
  const QnnInterface_t **found = NULL;
  uint32_t count = 0;
  if (providers == NULL) fail("%s has no %s", library, PROVIDERS);
  check(providers(&found, &count), PROVIDERS);
  if (count == 0) fail("%s has no interface", library);
  if (found[0]->providerName != NULL) runtime_name = found[0]->providerName;
  return found[0]->v2;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char **argv) {
  const Options options = read_arguments(argc, argv);
  if (options.seconds > 0) alarm((unsigned)options.seconds + STARTING);
  read_graph(options.graph);
  if (mkdir(options.output, 0777) != 0 && errno != EEXIST) fail("%s: %s", options.output, strerror(errno));
  const QnnInterface_ImplementationV2_t qnn = open_backend(options.backend);

  const char *build = NULL;
  if (qnn.backendGetBuildId == NULL || qnn.backendGetBuildId(&build) != QNN_SUCCESS || build == NULL) build = "-";
  printf("udogen-client: runtime %s\nudogen-client: build %s\n", runtime_name, build);

  Qnn_LogHandle_t log = NULL;
  check(qnn.logCreate(log_line, QNN_LOG_LEVEL_WARN, &log), "logCreate");
  Qnn_BackendHandle_t backend = NULL;
  check(qnn.backendCreate(log, NULL, &backend), "backendCreate");
  for (int at = 0; at < options.package_count; ++at) {
    const Package each = options.packages[at];
    const Qnn_ErrorHandle_t code = qnn.backendRegisterOpPackage(backend, each.path, each.provider, each.target);
    if (code != QNN_SUCCESS)
      fail("backendRegisterOpPackage of %s failed with %lu", each.path, (unsigned long)(code & 0xFFFF));
  }

  size_t size = 0;
  void *const binary = read_all(options.context, &size);
  Qnn_ContextHandle_t context = NULL;
  check(qnn.contextCreateFromBinary(backend, NULL, NULL, binary, size, &context, NULL), "contextCreateFromBinary");
  free(binary);
  Qnn_GraphHandle_t graph = NULL;
  check(qnn.graphRetrieve(context, graph_name, &graph), "graphRetrieve");

  read_inputs();
  for (uint32_t at = 0; at < outputs.count; ++at)
    memset(outputs.tensors[at].v1.clientBuf.data, FILLED, outputs.tensors[at].v1.clientBuf.dataSize);
  if (options.seconds > 0) alarm((unsigned)options.seconds);
  const double begin = seconds();
  for (long loop = 0; loop < options.loops; ++loop)
    check(qnn.graphExecute(graph, inputs.tensors, inputs.count, outputs.tensors, outputs.count, NULL, NULL),
          "graphExecute");
  const double took = seconds() - begin;
  if (options.seconds > 0) alarm(STARTING);
  write_outputs(options.output);
  printf("udogen-client: %s: %ld executed, %.1f us each\n", graph_name, options.loops,
         1e6 * took / (double)(options.loops ? options.loops : 1));

  check(qnn.contextFree(context, NULL), "contextFree");
  check(qnn.backendFree(backend), "backendFree");
  check(qnn.logFree(log), "logFree");
  return 0;
}
