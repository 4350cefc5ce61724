// The HTP backend of the emulator: QHPI packages of libQnnHtp.so, as they are built for x86.
#include <dlfcn.h>

#include "HTP/QnnHtpContext.h"
#include "HTP/QnnHtpGraph.h"
#include "HTP/QnnHtpMem.h"
#include "HTP/core/qhpi.h"
#include "graph.hpp"
#include "registry.hpp"

namespace emulator {
namespace {

constexpr std::uint32_t defaultThreads = 4;  // of HVX, that slice a kernel

class HtpEngine : public Engine {
 public:
  const std::string& title() const override {
    static const std::string text = "this machine's processor, as HTP";
    return text;
  }

  // QHPI packages get none: they call functions.
  QnnOpPackage_GlobalInfrastructure_t infrastructure() override { return nullptr; }

  std::unique_ptr<ContextState> makeContextState() override { return std::make_unique<ContextMemory>(); }

  Qnn_ErrorHandle_t configure(QnnGraph_CustomConfig_t config, std::uint32_t& option) const override {
    if (config == nullptr) return QNN_GRAPH_ERROR_INVALID_ARGUMENT;
    const auto& given = *static_cast<const QnnHtpGraph_CustomConfig_t*>(config);
    if (given.option == QNN_HTP_GRAPH_CONFIG_OPTION_NUM_HVX_THREADS) {
      if (given.numHvxThreads == 0 || given.numHvxThreads > 64) return QNN_GRAPH_ERROR_INVALID_ARGUMENT;
      option = static_cast<std::uint32_t>(given.numHvxThreads);
      return QNN_SUCCESS;
    }
    return QNN_SUCCESS;  // the others have no effect here
  }

  Qnn_ErrorHandle_t compile(ContextState& shared, const Composed& graph, const Logger& logger,
                            std::unique_ptr<Executable>& made) override {
    auto compiled = std::make_unique<HtpGraph>(static_cast<ContextMemory&>(shared), logger);
    const Qnn_ErrorHandle_t code = compiled->compile(graph, graph.option == 0 ? defaultThreads : graph.option);
    if (code == QNN_SUCCESS) made = std::move(compiled);
    return code;
  }

  Qnn_ErrorHandle_t readMemory(Qnn_MemInfoCustom_t info, MemRequest& request, const Logger& logger) const override;
  Qnn_ErrorHandle_t property(const Context& context, QnnContext_CustomProperty_t property) const override;
};

/// Buffers of a whole context have no tensor; buffers.cpp has looked at them already.
Qnn_ErrorHandle_t HtpEngine::readMemory(Qnn_MemInfoCustom_t info, MemRequest& request, const Logger& logger) const {
  const auto& given = *static_cast<const QnnMemHtp_Descriptor_t*>(info);
  if (given.type != QNN_HTP_MEM_WEIGHTS_BUFFER && given.type != QNN_HTP_MEM_SHARED_SPILLFILL_BUFFER) {
    return Engine::readMemory(info, request, logger);
  }
  request.fd = given.weightsBufferConfig.fd;
  request.offset = given.weightsBufferConfig.offset;
  request.size = given.weightsBufferConfig.offset + given.size;
  request.isShared = true;
  request.hasTensor = false;
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t HtpEngine::property(const Context& context, QnnContext_CustomProperty_t property) const {
  auto& wanted = *static_cast<QnnHtpContext_CustomProperty_t*>(property);
  const ContextMemory& shared = memoryOf(context);
  switch (wanted.option) {
    case QNN_HTP_CONTEXT_GET_PROP_BUFFER_START_ALIGNMENT:
      wanted.bufferStartAlignment = bufferAlignment;
      return QNN_SUCCESS;
    case QNN_HTP_CONTEXT_GET_PROP_MAX_SPILLFILL_BUFFER_SIZE:
      wanted.spillfillBufferSize = shared.isDeferred ? shared.spillRequired : shared.spillSize();
      return QNN_SUCCESS;
    case QNN_HTP_CONTEXT_GET_PROP_WEIGHTS_BUFFER_SIZE:
      wanted.weightsBufferSize = shared.isDeferred ? shared.weightsRequired : shared.weightsSize();
      return QNN_SUCCESS;
    default: return QNN_CONTEXT_ERROR_INVALID_ARGUMENT;
  }
}

Qnn_ErrorHandle_t backendRegisterOpPackage(Qnn_BackendHandle_t handle, const char* path, const char* provider,
                                           const char* target) {
  return guarded([&]() -> Qnn_ErrorHandle_t {
    const auto backend = objects().find<Backend>(handle);
    const bool fits = target == nullptr || std::string(target) == identity.target;
    if (backend != nullptr && path != nullptr && provider != nullptr && fits) {
      const Qnn_ErrorHandle_t code = registerKernels(path, backend->logger);
      if (code != QNN_SUCCESS) return code;
    }
    return core.backendRegisterOpPackage(handle, path, provider, target);
  });
}

Qnn_ErrorHandle_t tensorCreateGraphTensor(Qnn_GraphHandle_t handle, Qnn_Tensor_t* tensor) {
  const auto graph = objects().find<Graph>(handle);
  if (graph != nullptr && tensor != nullptr && common(*tensor).type != QNN_TENSOR_TYPE_NULL) {
    const Qnn_TensorV1_t& given = common(*tensor);
    if (!hasTensorsOf(given.dataType) || given.rank < 1 || given.rank > 6) {
      graph->context->backend->logger.error(
          "tensor `%s` has rank %u and data type 0x%04x: HTP has ranks 1 to 6, and no numbers of 64 bits but INT_64",
          given.name == nullptr ? "" : given.name, given.rank, static_cast<unsigned>(given.dataType));
      return QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM;  // as libQnnHtp returns
    }
  }
  return core.tensorCreateGraphTensor(handle, tensor);
}

void specialize(QnnInterface_ImplementationV2_t& table) {
  core = table;
  fillDevices(table);
  fillContexts(table);
  fillBuffers(table);
  table.backendRegisterOpPackage = backendRegisterOpPackage;
  table.tensorCreateGraphTensor = tensorCreateGraphTensor;
}

}  // namespace

QnnInterface_ImplementationV2_t core = {};

// The number by which clients know the real one; the name is our own.
const Identity identity = {6, "HTP_UDOGEN_EMULATOR", {5, 36, 0}, "CPU", true, false, false, specialize};

Qnn_ErrorHandle_t startEngine(const Logger& logger, std::shared_ptr<Engine>& made) {
  // Packages find `qhpi_…` in the process: a process that opened this library with local symbols has it opened for all here.
  static const bool isGlobal = [] {
    Dl_info own = {};
    if (dladdr(reinterpret_cast<const void*>(&startEngine), &own) == 0 || own.dli_fname == nullptr) return false;
    return dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL) != nullptr;
  }();
  if (!isGlobal) logger.warn("op packages may not find the functions of QHPI: open this library with RTLD_GLOBAL");
  made = std::make_shared<HtpEngine>();
  return QNN_SUCCESS;
}

}  // namespace emulator
