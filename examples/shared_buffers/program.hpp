// What the three listings have in common: a backend library, rpcmem, and a graph with two inputs.
#pragma once

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <vector>

#include "HTP/QnnHtpContext.h"
#include "HTP/QnnHtpMem.h"
#include "QnnInterface.h"

#define RPCMEM_HEAP_ID_SYSTEM 25
#define RPCMEM_DEFAULT_FLAGS 1

typedef void* (*RpcMemAllocFn_t)(int, uint32_t, int);
typedef void (*RpcMemFreeFn_t)(void*);
typedef int (*RpcMemToFdFn_t)(void*);

inline void check(Qnn_ErrorHandle_t code, const char* call) {
  if (code == QNN_SUCCESS) return;
  std::fprintf(stderr, "%s failed: %llu\n", call, static_cast<unsigned long long>(code));
  std::exit(1);
}

/// rpcmem of a device.  A PC has no libcdsprpc.so: there a memfd is shared memory with a descriptor.
struct RpcMem {
  RpcMemAllocFn_t alloc = allocMemfd;
  RpcMemFreeFn_t free = [](void* data) { munmap(data, files()[data].size), close(files()[data].fd), files().erase(data); };
  RpcMemToFdFn_t toFd = [](void* data) { return files().count(data) ? files()[data].fd : -1; };

  RpcMem() {
    void* const library = dlopen("libcdsprpc.so", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    alloc = reinterpret_cast<RpcMemAllocFn_t>(dlsym(library, "rpcmem_alloc"));
    free = reinterpret_cast<RpcMemFreeFn_t>(dlsym(library, "rpcmem_free"));
    toFd = reinterpret_cast<RpcMemToFdFn_t>(dlsym(library, "rpcmem_to_fd"));
    check(alloc == nullptr || free == nullptr || toFd == nullptr, "dlsym of rpcmem");
  }

 private:
  struct File {
    int fd;
    std::size_t size;
  };

  static std::map<void*, File>& files() {
    static std::map<void*, File> all;
    return all;
  }

  static void* allocMemfd(int, uint32_t, int bytes) {
    const std::size_t size = static_cast<std::size_t>(bytes);
    const int fd = memfd_create("rpcmem", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, bytes) != 0) return nullptr;
    void* const data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) return nullptr;
    files()[data] = {fd, size};
    return data;
  }
};

/// A tensor of the graph: 48 floats.
struct Tensor {
  static constexpr std::uint32_t count = 48, bytes = count * sizeof(float);
  uint32_t dimensions[4] = {1, 2, 3, 8};
  Qnn_Tensor_t qnn = QNN_TENSOR_INIT;

  Tensor(const char* name, Qnn_TensorType_t type) {
    qnn.v1.name = name;
    qnn.v1.type = type;
    qnn.v1.dataType = QNN_DATATYPE_FLOAT_32;
    qnn.v1.rank = 4;
    qnn.v1.dimensions = dimensions;
    qnn.v1.memType = QNN_TENSORMEMTYPE_RAW;
  }
  Tensor(const Tensor&) = delete;
};

/// A backend with y = (a + b) + ones as the graph `add` of a context, and the same context as a binary.
struct Program {
  QNN_INTERFACE_VER_TYPE qnn = {};
  Qnn_BackendHandle_t backend = nullptr;
  Qnn_ContextHandle_t context = nullptr;
  Qnn_GraphHandle_t graph = nullptr;
  Tensor a{"a", QNN_TENSOR_TYPE_APP_WRITE}, b{"b", QNN_TENSOR_TYPE_APP_WRITE}, sum{"sum", QNN_TENSOR_TYPE_NATIVE};
  Tensor ones{"ones", QNN_TENSOR_TYPE_STATIC}, y{"y", QNN_TENSOR_TYPE_APP_READ};
  std::vector<unsigned char> binary;

  explicit Program(const char* path) {
    void* const library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) std::fprintf(stderr, "%s\n", dlerror()), std::exit(1);
    auto* const getProviders =
        reinterpret_cast<decltype(&QnnInterface_getProviders)>(dlsym(library, "QnnInterface_getProviders"));
    const QnnInterface_t** providers = nullptr;
    uint32_t count = 0;
    check(getProviders == nullptr ? 1 : getProviders(&providers, &count), "QnnInterface_getProviders");
    qnn = providers[0]->QNN_INTERFACE_VER_NAME;
    check(qnn.backendCreate(nullptr, nullptr, &backend), "backendCreate");
    prepare();
  }

  /// Executes a graph, which reads a and b and writes y, wherever their memory is.
  void execute(Qnn_GraphHandle_t which) {
    const Qnn_Tensor_t inputs[] = {a.qnn, b.qnn};
    Qnn_Tensor_t outputs[] = {y.qnn};
    check(qnn.graphExecute(which, inputs, 2, outputs, 1, nullptr, nullptr), "graphExecute");
  }

 private:
  void prepare() {
    check(qnn.contextCreate(backend, nullptr, nullptr, &context), "contextCreate");
    check(qnn.graphCreate(context, "add", nullptr, &graph), "graphCreate");
    std::vector<float> one(Tensor::count, 1.0f);
    ones.qnn.v1.clientBuf = {one.data(), Tensor::bytes};
    for (Tensor* each : {&a, &b, &sum, &ones, &y}) check(qnn.tensorCreateGraphTensor(graph, &each->qnn), each->qnn.v1.name);
    addNode("first", a, b, sum);
    addNode("second", sum, ones, y);
    check(qnn.graphFinalize(graph, nullptr, nullptr), "graphFinalize");
    Qnn_ContextBinarySize_t size = 0;
    check(qnn.contextGetBinarySize(context, &size), "contextGetBinarySize");
    binary.resize(size);
    check(qnn.contextGetBinary(context, binary.data(), size, &size), "contextGetBinary");
  }

  void addNode(const char* name, const Tensor& left, const Tensor& right, Tensor& result) {
    Qnn_Tensor_t inputs[] = {left.qnn, right.qnn};
    Qnn_OpConfig_t op = QNN_OPCONFIG_INIT;
    op.v1 = {name, "qti.aisw", "ElementWiseAdd", 0, nullptr, 2, inputs, 1, &result.qnn};
    check(qnn.graphAddNode(graph, op), name);
  }
};
