// An op package for the tests of udogen/qnn and udogen/runtime: each op has one feature or one fault.
// The tests build it with: g++ -std=c++17 -shared -fPIC -I udogen/qnn/include probe_package.cpp
//   -DUNDEFINED   needs an undefined symbol             -DVERSION_2   announces interface version 2.0
//   -DINITIALIZED reports that it is already registered -DMISSING_METHOD leaves a member NULL
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

#include "CPU/QnnCpuOpPackage.h"

#ifdef UNDEFINED
extern "C" int udogen_symbol_that_nobody_has(int);
#endif

namespace {

QnnLog_Callback_t g_log = nullptr;
QnnLog_Level_t g_level = QNN_LOG_LEVEL_ERROR;
bool g_initialized = false;
std::map<std::string, uint32_t> g_param_count;  // by node name: the CPU runtime leaves numOfParams unset if it is 0

void logv(QnnLog_Level_t level, const char *format, ...) {
  if (g_log == nullptr || level > g_level) return;
  va_list args;
  va_start(args, format);
  g_log(format, level, 0, args);
  va_end(args);
}
#define SAY(...) logv(QNN_LOG_LEVEL_INFO, __VA_ARGS__)
#define COMPLAIN(...) logv(QNN_LOG_LEVEL_ERROR, __VA_ARGS__)

std::string dims(uint32_t rank, const uint32_t *from) {
  std::string text = "[";
  for (uint32_t i = 0; from != nullptr && i < rank; ++i) text += (i ? "," : "") + std::to_string(from[i]);
  return from == nullptr ? "null" : text + "]";
}

void show(const char *phase, const char *kind, uint32_t index, const QnnCpuOpPackage_Tensor_t *t) {
  if (t == nullptr) return SAY("%s %s %u pointer=null", phase, kind, index);
  SAY("%s %s %u type=%x rank=%u max=%s current=%s data=%s scale=%g offset=%d", phase, kind, index, unsigned(t->dataType),
      t->rank, dims(t->rank, t->maxDimensions).c_str(), dims(t->rank, t->currentDimensions).c_str(),
      t->data ? "yes" : "null", double(t->quantizeParams.scaleOffsetEncoding.scale),
      t->quantizeParams.scaleOffsetEncoding.offset);
}

void show(const char *phase, const QnnCpuOpPackage_Node_t *node) {
  uint32_t known = g_param_count.count(node->name) ? g_param_count[node->name] : 0xFFFF;
  SAY("%s node name=%s type=%s params=%u (validated %u) inputs=%u outputs=%u", phase, node->name, node->typeName,
      node->numOfParams, known, node->numOfInputs, node->numOfOutputs);
  for (uint32_t i = 0; known != 0xFFFF && i < known; ++i) {
    const QnnCpuOpPackage_Param_t *p = node->params[i];
    if (p->type == QNN_CPU_PARAMTYPE_STRING) SAY("%s param %s string=%s", phase, p->name, p->string);
    else if (p->type == QNN_CPU_PARAMTYPE_SCALAR) SAY("%s param %s scalar=%.17g", phase, p->name, p->scalarParam);
    else {
      show(phase, p->name, i, p->tensorParam);
      if (p->tensorParam && p->tensorParam->data && p->tensorParam->dataType == QNN_CPU_DATATYPE_UINT_32)
        SAY("%s param %s first=%u", phase, p->name, *static_cast<uint32_t *>(p->tensorParam->data));
    }
  }
  for (uint32_t i = 0; i < node->numOfInputs; ++i) show(phase, "input", i, node->inputs[i]);
  for (uint32_t i = 0; i < node->numOfOutputs; ++i) show(phase, "output", i, node->outputs[i]);
}

size_t count(const QnnCpuOpPackage_Tensor_t *t) {
  size_t n = 1;
  for (uint32_t i = 0; i < t->rank; ++i) n *= t->currentDimensions[i];
  return n;
}

double param(const QnnCpuOpPackage_Node_t *node, const char *name, double otherwise) {
  for (uint32_t i = 0; i < g_param_count[node->name]; ++i)
    if (std::strcmp(node->params[i]->name, name) == 0) return node->params[i]->scalarParam;
  return otherwise;
}

Qnn_ErrorHandle_t execute(void *data) {
  auto *node = static_cast<QnnCpuOpPackage_Node_t *>(data);
  std::string type = node->typeName;
  if (type == "Dump") {
    show("execute", node);
    return 0;
  }
  if (type == "AddOne") {
    auto *in = static_cast<const float *>(node->inputs[0]->data);
    auto *out = static_cast<float *>(node->outputs[0]->data);
    float step = float(param(node, "step", 1.0));
    for (size_t i = 0; i < count(node->inputs[0]); ++i) out[i] = in[i] + step;
    return 0;
  }
  if (type == "CopyBytes") {  // any type that the runtime delivers: one byte per element
    std::memcpy(node->outputs[0]->data, node->inputs[0]->data, count(node->inputs[0]));
    return 0;
  }
  if (type == "Fails") {
    COMPLAIN("Fails: told to answer %d", int(param(node, "code", 1)));
    return Qnn_ErrorHandle_t(param(node, "code", 1));
  }
  if (type == "Overrun") {
    auto *out = static_cast<float *>(node->outputs[0]->data);
    for (size_t i = 0; i < count(node->outputs[0]) + 8; ++i) out[i] = 1.0f;
    return 0;
  }
  if (type == "Segfault") *static_cast<volatile int *>(nullptr) = 1;
  if (type == "Abort") std::abort();
  if (type == "Exit") std::exit(7);
  if (type == "Throw") throw std::runtime_error("thrown by the op");
  if (type == "Loop") for (;;) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  if (type == "Spin") for (volatile unsigned long i = 0;;) i = i + 1;
  if (type == "Daemon") {  // leaves the session twice; its process id is the result
    int ends[2];
    if (pipe(ends) != 0) return 1;
    if (fork() == 0) {
      setsid();
      if (fork() != 0) _exit(0);
      setsid();
      const pid_t me = getpid();
      if (write(ends[1], &me, sizeof me) < 0) _exit(1);
      for (;;) pause();
    }
    pid_t daemon = 0;
    if (read(ends[0], &daemon, sizeof daemon) < 0) return 1;
    std::fprintf(stderr, "daemon %d\n", int(daemon));
    if (param(node, "crash", 0) != 0) std::abort();
    static_cast<float *>(node->outputs[0]->data)[0] = float(daemon);
    return 0;
  }
  if (type == "Scribble") {  // into every open descriptor from `first` on
    const std::string text(size_t(param(node, "bytes", 1)), '{');
    for (int each = int(param(node, "first", 3)); each < 8192; ++each)
      if (fcntl(each, F_GETFD) != -1 && write(each, text.data(), text.size()) < 0) continue;
    return 0;
  }
  if (type == "Pretend") {  // to be the library that watches kernels
    std::fprintf(stderr, "udogen-fault nonsense\nudogen-frame x\nudogen-region 1\n");
    std::abort();
  }
  if (type == "CrashElsewhere") {  // the output of the watching library if a runtime itself crashes
    std::fprintf(stderr, "udogen-fault 11 read 0x8\nudogen-frame 0x10 /nowhere/libOther.so\n");
    std::abort();
  }
  if (type == "Close") {  // as daemons do
    for (int each = 3; each < 8192; ++each) close(each);
    return 0;
  }
  if (type == "Chatter") {
    for (int i = 0; i < 100000; ++i) std::printf("chatter on stdout %d\n", i);
    std::fprintf(stderr, "chatter on stderr\n");
  }
  return 0;
}

const char *g_names[] = {"AddOne", "Dump", "CopyBytes", "Fails", "Overrun", "Segfault", "Abort", "Exit", "Throw",
                         "Loop", "Spin", "Daemon", "Chatter", "Scribble", "Pretend", "CrashElsewhere", "Close", "Refuse", "Mute", "FailCreate", "CrashCreate"};

Qnn_ErrorHandle_t init(QnnOpPackage_GlobalInfrastructure_t infrastructure) {
#ifdef INITIALIZED
  g_initialized = true;
#endif
  if (g_initialized) return QNN_OP_PACKAGE_ERROR_LIBRARY_ALREADY_INITIALIZED;
  SAY("init infrastructure=%s", infrastructure ? "yes" : "null");
  g_initialized = true;
  return 0;
}
Qnn_ErrorHandle_t terminate() {
  SAY("terminate");
  g_initialized = false;
  return 0;
}
Qnn_ErrorHandle_t getInfo(const QnnOpPackage_Info_t **info) {
  static QnnOpPackage_Info_t answer = {};
  static Qnn_ApiVersion_t version = {{2, 32, 0}, {1, 1, 0}};
  answer.packageName = "Probe";
  answer.operationNames = g_names;
  answer.numOperations = sizeof g_names / sizeof *g_names;
  answer.sdkApiVersion = &version;
  *info = &answer;
  return 0;
}
Qnn_ErrorHandle_t validate(Qnn_OpConfig_t config) {
  std::string type = config.v1.typeName;
  g_param_count[config.v1.name] = config.v1.numOfParams;
  if (type == "Dump") {
    SAY("validate node name=%s params=%u inputs=%u outputs=%u", config.v1.name, config.v1.numOfParams,
        config.v1.numOfInputs, config.v1.numOfOutputs);
    for (uint32_t i = 0; i < config.v1.numOfParams; ++i) {
      const Qnn_Param_t &p = config.v1.params[i];
      if (p.paramType == QNN_PARAMTYPE_SCALAR) SAY("validate param %s type=%x", p.name, unsigned(p.scalarParam.dataType));
      else SAY("validate param %s tensor data=%s", p.name, p.tensorParam.v1.clientBuf.data ? "yes" : "null");
    }
    for (uint32_t i = 0; i < config.v1.numOfInputs; ++i) {
      const Qnn_TensorV1_t &t = config.v1.inputTensors[i].v1;
      SAY("validate input %u kind=%d type=%x rank=%u dims=%s data=%s", i, int(t.type), unsigned(t.dataType), t.rank,
          dims(t.rank, t.dimensions).c_str(), t.clientBuf.data ? "yes" : "null");
    }
  }
  if (type == "AddOne" && (config.v1.numOfInputs != 1 || config.v1.numOfOutputs != 1)) {
    COMPLAIN("AddOne: 1 input and 1 output expected, got %u and %u", config.v1.numOfInputs, config.v1.numOfOutputs);
    return QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE;
  }
  if (type == "AddOne" && config.v1.inputTensors[0].v1.dataType != QNN_DATATYPE_FLOAT_32) {
    COMPLAIN("AddOne: input `x` must be FLOAT_32");
    return QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE;
  }
  if (type == "Refuse") {
    COMPLAIN("Refuse: input `x` must have rank 4, it has %u", config.v1.inputTensors[0].v1.rank);
    return QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE;
  }
  if (type == "Mute") return QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE;
  return 0;
}
Qnn_ErrorHandle_t createOpImpl(QnnOpPackage_GraphInfrastructure_t infrastructure, QnnOpPackage_Node_t node,
                               QnnOpPackage_OpImpl_t *made) {
  std::string type = node->typeName;
  if (type == "Dump") {
    SAY("create infrastructure=%s", infrastructure ? "yes" : "null");
    show("create", node);
  }
  if (type == "FailCreate") {
    COMPLAIN("FailCreate: no memory for the table");
    return QNN_COMMON_ERROR_MEM_ALLOC;
  }
  if (type == "CrashCreate") std::abort();
  static QnnCpuOpPackage_OpImpl_t implementation;
  implementation.opImplFn = execute;
  implementation.userData = node;
  *made = &implementation;
  return 0;
}
Qnn_ErrorHandle_t freeOpImpl(QnnOpPackage_OpImpl_t) { return 0; }
Qnn_ErrorHandle_t logInitialize(QnnLog_Callback_t callback, QnnLog_Level_t level) {
  g_log = callback;
  g_level = level;
  SAY("logInitialize level=%d initialized=%d", int(level), int(g_initialized));
  return 0;
}
Qnn_ErrorHandle_t logSetLevel(QnnLog_Level_t level) {
  g_level = level;
  return 0;
}
Qnn_ErrorHandle_t logTerminate() {
  g_log = nullptr;
  return 0;
}

}  // namespace

extern "C" Qnn_ErrorHandle_t ProbeInterfaceProvider(QnnOpPackage_Interface_t *interface_) {
#ifdef UNDEFINED
  udogen_symbol_that_nobody_has(1);
#endif
#ifdef VERSION_2
  interface_->interfaceVersion = {2, 0, 0};
#else
  interface_->interfaceVersion = {1, 4, 0};
#endif
  interface_->v1_4 = {init,       terminate,     getInfo,     validate,    createOpImpl,
                      freeOpImpl, logInitialize, logSetLevel, logTerminate};
#ifdef MISSING_METHOD
  interface_->v1_4.logSetLevel = nullptr;
#endif
  return 0;
}
