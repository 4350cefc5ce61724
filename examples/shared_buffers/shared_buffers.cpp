// The three kinds of shared memory of HTP, in C++: shared_buffers LIBRARY
#include <cstring>
#include <string>

#include "program.hpp"

namespace {

bool isRight(const float* a, const float* b, const float* y) {
  for (std::uint32_t i = 0; i < Tensor::count; ++i) {
    if (y[i] != a[i] + b[i] + 1.0f) return false;
  }
  return true;
}

void fill(float* a, float* b) {
  for (std::uint32_t i = 0; i < Tensor::count; ++i) a[i] = static_cast<float>(i), b[i] = 100.0f;
}

// Each tensor has its own buffer.
bool ion(Program& program, const RpcMem& rpcmem) {
  float* memory[3] = {};
  Tensor* const tensors[] = {&program.a, &program.b, &program.y};
  for (int i = 0; i < 3; ++i) {
    Qnn_Tensor_t& tensor = tensors[i]->qnn;
    memory[i] = static_cast<float*>(rpcmem.alloc(RPCMEM_HEAP_ID_SYSTEM, RPCMEM_DEFAULT_FLAGS, Tensor::bytes));
    const int memFd = memory[i] == nullptr ? -1 : rpcmem.toFd(memory[i]);
    check(memFd == -1, "rpcmem_to_fd");

    Qnn_MemDescriptor_t memDescriptor = QNN_MEM_DESCRIPTOR_INIT;
    memDescriptor.memShape = {tensor.v1.rank, tensor.v1.dimensions, nullptr};
    memDescriptor.dataType = tensor.v1.dataType;
    memDescriptor.memType = QNN_MEM_TYPE_ION;
    memDescriptor.ionInfo.fd = memFd;
    tensor.v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE;
    tensor.v1.memHandle = nullptr;
    check(program.qnn.memRegister(program.context, &memDescriptor, 1, &tensor.v1.memHandle), "memRegister");
  }
  fill(memory[0], memory[1]);
  program.execute(program.graph);
  const bool right = isRight(memory[0], memory[1], memory[2]);
  for (int i = 0; i < 3; ++i) {
    check(program.qnn.memDeRegister(&tensors[i]->qnn.v1.memHandle, 1), "memDeRegister");
    rpcmem.free(memory[i]);
  }
  return right;
}

// One buffer holds all tensors, each at an offset.
bool multiTensor(Program& program, const RpcMem& rpcmem) {
  Tensor* const tensors[] = {&program.a, &program.b, &program.y};
  const std::uint64_t totalBufferSize = 3 * Tensor::bytes;
  auto* const memPointer = static_cast<unsigned char*>(
      rpcmem.alloc(RPCMEM_HEAP_ID_SYSTEM, RPCMEM_DEFAULT_FLAGS, static_cast<int>(totalBufferSize)));
  const int memFd = memPointer == nullptr ? -1 : rpcmem.toFd(memPointer);
  check(memFd == -1, "rpcmem_to_fd");
  std::uint64_t offset = 0;
  for (Tensor* const each : tensors) {
    Qnn_Tensor_t& tensor = each->qnn;
    Qnn_MemDescriptor_t memDescriptor = QNN_MEM_DESCRIPTOR_INIT;
    memDescriptor.memShape = {tensor.v1.rank, tensor.v1.dimensions, nullptr};
    memDescriptor.dataType = tensor.v1.dataType;
    memDescriptor.memType = QNN_MEM_TYPE_CUSTOM;

    QnnMemHtp_Descriptor_t htpMemDescriptor = QNN_HTP_MEM_DESCRIPTOR_INIT;
    htpMemDescriptor.type = QNN_HTP_MEM_SHARED_BUFFER;
    htpMemDescriptor.size = totalBufferSize;  // of the whole buffer, not of the tensor
    htpMemDescriptor.sharedBufferConfig = {memFd, offset};
    memDescriptor.customInfo = &htpMemDescriptor;

    tensor.v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE;
    tensor.v1.memHandle = nullptr;
    check(program.qnn.memRegister(program.context, &memDescriptor, 1, &tensor.v1.memHandle), "memRegister");
    offset += Tensor::bytes;
  }
  float* const a = reinterpret_cast<float*>(memPointer);
  float *const b = a + Tensor::count, *const y = b + Tensor::count;
  fill(a, b);
  program.execute(program.graph);
  const bool right = isRight(a, b, y);
  for (Tensor* const each : tensors) check(program.qnn.memDeRegister(&each->qnn.v1.memHandle, 1), "memDeRegister");
  rpcmem.free(memPointer);
  return right;
}

// Step 2: the sizes and the alignment that the context needs for its external buffers.
std::uint64_t property(const Program& program, Qnn_ContextHandle_t context, QnnHtpContext_GetPropertyOption_t option) {
  QnnHtpContext_CustomProperty_t customProperty = QNN_HTP_CONTEXT_CUSTOM_PROPERTY_INIT;
  customProperty.option = option;
  QnnContext_Property_t contextProperty = QNN_CONTEXT_PROPERTY_INIT;
  contextProperty.option = QNN_CONTEXT_PROPERTY_OPTION_CUSTOM;
  contextProperty.customProperty = &customProperty;
  QnnContext_Property_t* contextProperties[] = {&contextProperty, nullptr};
  check(program.qnn.contextGetProperty(context, contextProperties), "contextGetProperty");
  return customProperty.weightsBufferSize;  // the three values are one union
}

// Steps 3 and 4: a buffer that QNN fills, registered without a shape and a type.
void* give(const Program& program, const RpcMem& rpcmem, Qnn_ContextHandle_t context, QnnHtpMem_Type_t type,
           std::uint64_t size, std::uint64_t alignment) {
  if (size == 0) return nullptr;
  void* const memPointer = rpcmem.alloc(RPCMEM_HEAP_ID_SYSTEM, RPCMEM_DEFAULT_FLAGS, static_cast<int>(size));
  const int memFd = memPointer == nullptr ? -1 : rpcmem.toFd(memPointer);
  check(memFd == -1, "rpcmem_to_fd");
  check(alignment != 0 && reinterpret_cast<std::uintptr_t>(memPointer) % alignment != 0, "the alignment");
  QnnMemHtp_Descriptor_t htpMemDescriptor = QNN_HTP_MEM_DESCRIPTOR_INIT;
  htpMemDescriptor.type = type;
  htpMemDescriptor.size = size;
  (type == QNN_HTP_MEM_WEIGHTS_BUFFER ? htpMemDescriptor.weightsBufferConfig : htpMemDescriptor.spillfillBufferConfig) = {
      memFd, 0};
  Qnn_MemDescriptor_t memDescriptor = QNN_MEM_DESCRIPTOR_INIT;
  memDescriptor.memType = QNN_MEM_TYPE_CUSTOM;
  memDescriptor.customInfo = &htpMemDescriptor;
  Qnn_MemHandle_t memHandle = nullptr;  // deregistered by QNN with the context
  check(program.qnn.memRegister(context, &memDescriptor, 1, &memHandle), "memRegister");
  return memPointer;
}

// Weights and spill-fill of a context in memory of the program.
bool external(Program& program, const RpcMem& rpcmem) {
  QnnContext_Config_t contextConfig = QNN_CONTEXT_CONFIG_INIT;  // step 1
  contextConfig.option = QNN_CONTEXT_CONFIG_OPTION_DEFER_GRAPH_INIT;
  contextConfig.isGraphInitDeferred = 1;
  const QnnContext_Config_t* pContextConfig[] = {&contextConfig, nullptr};
  Qnn_ContextHandle_t context = nullptr;
  check(program.qnn.contextCreateFromBinary(program.backend, nullptr, pContextConfig, program.binary.data(),
                                            program.binary.size(), &context, nullptr),
        "contextCreateFromBinary");

  const std::uint64_t weights = property(program, context, QNN_HTP_CONTEXT_GET_PROP_WEIGHTS_BUFFER_SIZE);
  const std::uint64_t spill = property(program, context, QNN_HTP_CONTEXT_GET_PROP_MAX_SPILLFILL_BUFFER_SIZE);
  const std::uint64_t alignment = property(program, context, QNN_HTP_CONTEXT_GET_PROP_BUFFER_START_ALIGNMENT);
  void* const weightsBuffer = give(program, rpcmem, context, QNN_HTP_MEM_WEIGHTS_BUFFER, weights, alignment);
  void* const spillBuffer = give(program, rpcmem, context, QNN_HTP_MEM_SHARED_SPILLFILL_BUFFER, spill, alignment);
  check(program.qnn.contextFinalize(context, nullptr), "contextFinalize");  // step 5

  Qnn_GraphHandle_t graph = nullptr;
  check(program.qnn.graphRetrieve(context, "add", &graph), "graphRetrieve");
  std::vector<float> a(Tensor::count), b(Tensor::count), y(Tensor::count);
  fill(a.data(), b.data());
  Tensor* const tensors[] = {&program.a, &program.b, &program.y};
  float* const data[] = {a.data(), b.data(), y.data()};
  for (int i = 0; i < 3; ++i) {
    tensors[i]->qnn.v1.memType = QNN_TENSORMEMTYPE_RAW;
    tensors[i]->qnn.v1.clientBuf = {data[i], Tensor::bytes};
  }
  program.execute(graph);
  check(program.qnn.contextFree(context, nullptr), "contextFree");
  for (void* const each : {weightsBuffer, spillBuffer}) {
    if (each != nullptr) rpcmem.free(each);
  }
  std::printf("external: %llu bytes of weights, %llu of spill-fill\n", static_cast<unsigned long long>(weights),
              static_cast<unsigned long long>(spill));
  return isRight(a.data(), b.data(), y.data());
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return std::fputs("usage: shared_buffers LIBRARY\n", stderr), 2;
  const RpcMem rpcmem;
  Program program(arguments[1]);
  bool right = true;
  for (const auto& [name, run] : {std::pair{"ion", &ion}, {"multi", &multiTensor}, {"external", &external}}) {
    const bool is = run(program, rpcmem);
    std::printf("%s: %s\n", name, is ? "right" : "wrong");
    right = right && is;
  }
  program.qnn.contextFree(program.context, nullptr);
  program.qnn.backendFree(program.backend);
  return right ? 0 : 6;
}
