// The HTP backend of the emulator: QHPI packages of libQnnHtp.so, as they are built for x86.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "HTP/QnnHtpContext.h"
#include "HTP/QnnHtpGraph.h"
#include "HTP/QnnHtpMem.h"
#include "graph.hpp"
#include "own.hpp"

namespace emulator {
namespace {

// A graph's own options as one number: threads of HVX in the first byte, KiB of TCM above it.
constexpr std::uint32_t threadsMask = 0xff;
constexpr std::uint32_t tcmShift = 8;

/// Appends a line for each graph to the file that UDOGEN_HTP_GRAPH names.
void write(const char* graph, const std::vector<std::string>& stages, const Logger& logger) {
  const char* const path = std::getenv("UDOGEN_HTP_GRAPH");
  std::FILE* const file = path == nullptr ? nullptr : std::fopen(path, "a");
  if (file == nullptr) return logger.warn("UDOGEN_HTP_GRAPH=%s cannot be written", path);
  std::string text = "{\"graph\": \"";
  for (const char* at = graph; *at != '\0'; ++at) {
    if (*at == '"' || *at == '\\') text += '\\';
    text += static_cast<unsigned char>(*at) < 0x20 ? ' ' : *at;
  }
  text += "\", \"stages\": [";
  for (const std::string& each : stages) text += (&each == stages.data() ? "" : ", ") + each;
  text += "]}\n";
  std::fwrite(text.data(), 1, text.size(), file);
  std::fclose(file);
}

class HtpEngine : public Engine {
 public:
  const std::string& title() const override {
    static const std::string text = "this machine's processor, as HTP";
    return text;
  }

  // QHPI packages are told nothing: they ask.
  QnnOpPackage_GlobalInfrastructure_t infrastructure() override { return nullptr; }

  std::unique_ptr<Shared> share() override { return std::make_unique<HtpShared>(); }

  Qnn_ErrorHandle_t configure(QnnGraph_CustomConfig_t config, std::uint32_t& option) const override {
    if (config == nullptr) return QNN_GRAPH_ERROR_INVALID_ARGUMENT;
    const auto& given = *static_cast<const QnnHtpGraph_CustomConfig_t*>(config);
    const auto setTcm = [&option](std::uint64_t bytes) -> Qnn_ErrorHandle_t {
      if (bytes == 0 || bytes > (1u << 30)) return QNN_GRAPH_ERROR_INVALID_ARGUMENT;
      option = (option & threadsMask) | static_cast<std::uint32_t>((bytes + 1023) / 1024) << tcmShift;
      return QNN_SUCCESS;
    };
    switch (given.option) {
      case QNN_HTP_GRAPH_CONFIG_OPTION_NUM_HVX_THREADS:
        if (given.numHvxThreads == 0 || given.numHvxThreads > 64) return QNN_GRAPH_ERROR_INVALID_ARGUMENT;
        option = (option & ~threadsMask) | static_cast<std::uint32_t>(given.numHvxThreads);
        return QNN_SUCCESS;
      case QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE_IN_MB: return setTcm(std::uint64_t{given.vtcmSizeInMB} << 20);
      case QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE_IN_BYTES: return setTcm(given.vtcmSizeInBytes);
      default:  // what the others say has no meaning here
        return given.option >= QNN_HTP_GRAPH_CONFIG_OPTION_OPTIMIZATION &&
                       given.option <= QNN_HTP_GRAPH_CONFIG_OPTION_PRECISION_COMPENSATION
                   ? QNN_SUCCESS
                   : QNN_GRAPH_ERROR_INVALID_ARGUMENT;
    }
  }

  Qnn_ErrorHandle_t compile(Shared& shared, const Composed& graph, const Logger& logger,
                            std::unique_ptr<Executable>& made) override {
    auto& own = static_cast<HtpShared&>(shared);
    Processor processor = own.processor;
    if ((graph.option & threadsMask) != 0) processor.threads = graph.option & threadsMask;
    if (const std::uint32_t wanted = graph.option >> tcmShift; wanted != 0) {
      if (std::uint64_t{wanted} * 1024 > processor.tcm) {
        logger.error("graph `%s` asks for %u KiB of TCM, the processor has %u", graph.name, wanted, processor.tcm / 1024);
        return QNN_GRAPH_ERROR_FINALIZE_FAILED;
      }
      processor.tcm = wanted * 1024;
    }
    std::vector<std::string> stages;
    const bool isWanted = std::getenv("UDOGEN_HTP_GRAPH") != nullptr;
    auto compiled = std::make_unique<HtpGraph>(own, logger);
    const Qnn_ErrorHandle_t code = compiled->compile(graph, processor, isWanted ? &stages : nullptr);
    if (isWanted) write(graph.name, stages, logger);
    if (code == QNN_SUCCESS) made = std::move(compiled);
    return code;
  }

  Qnn_ErrorHandle_t readMemory(Qnn_MemInfoCustom_t info, MemWish& wish, const Logger& logger) const override;
  Qnn_ErrorHandle_t property(const Context& context, QnnContext_CustomProperty_t property) const override;
};

/// Buffers of a whole context have no tensor; buffers.cpp has looked at them already.
Qnn_ErrorHandle_t HtpEngine::readMemory(Qnn_MemInfoCustom_t info, MemWish& wish, const Logger& logger) const {
  const auto& given = *static_cast<const QnnMemHtp_Descriptor_t*>(info);
  if (given.type != QNN_HTP_MEM_WEIGHTS_BUFFER && given.type != QNN_HTP_MEM_SHARED_SPILLFILL_BUFFER) {
    return Engine::readMemory(info, wish, logger);
  }
  wish.fd = given.weightsBufferConfig.fd;
  wish.offset = given.weightsBufferConfig.offset;
  wish.size = given.weightsBufferConfig.offset + given.size;
  wish.isShared = true;
  wish.hasTensor = false;
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t HtpEngine::property(const Context& context, QnnContext_CustomProperty_t property) const {
  auto& wanted = *static_cast<QnnHtpContext_CustomProperty_t*>(property);
  const HtpShared& shared = sharedOf(context);
  switch (wanted.option) {
    case QNN_HTP_CONTEXT_GET_PROP_BUFFER_START_ALIGNMENT:
      wanted.bufferStartAlignment = bufferAlignment;
      return QNN_SUCCESS;
    case QNN_HTP_CONTEXT_GET_PROP_MAX_SPILLFILL_BUFFER_SIZE:
      wanted.spillfillBufferSize = shared.isDeferred ? shared.spillWanted : shared.spillSize();
      return QNN_SUCCESS;
    case QNN_HTP_CONTEXT_GET_PROP_WEIGHTS_BUFFER_SIZE:
      wanted.weightsBufferSize = shared.isDeferred ? shared.weightsWanted : shared.weightsSize();
      return QNN_SUCCESS;
    default: return QNN_CONTEXT_ERROR_INVALID_ARGUMENT;
  }
}

void specialize(QnnInterface_ImplementationV2_t& table) {
  core = table;
  fillDevices(table);
  fillContexts(table);
  fillBuffers(table);
  fillGraphs(table);
}

}  // namespace

QnnInterface_ImplementationV2_t core = {};

// The number by which clients know the real one; the name is our own.
const Identity identity = {6, "HTP_UDOGEN_EMULATOR", {5, 36, 0}, "CPU", true, false, specialize};

Qnn_ErrorHandle_t startEngine(const Logger& logger, std::shared_ptr<Engine>& made) {
  // Packages find `qhpi_…` in the process: whoever opened this library for itself alone has it opened for all here.
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
