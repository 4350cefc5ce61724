// The CPU backend of the emulator: op packages of libQnnCpu.so, with what that library refuses: registered memory.
#include "graph.hpp"

namespace emulator {
namespace {

class CpuEngine : public Engine {
 public:
  const std::string& title() const override {
    static const std::string text = "this machine's processor";
    return text;
  }

  // As libQnnCpu 2.47: packages are given no infrastructure.
  QnnOpPackage_GlobalInfrastructure_t infrastructure() override { return nullptr; }

  std::unique_ptr<ContextState> makeContextState() override { return std::make_unique<ContextState>(); }

  Qnn_ErrorHandle_t configure(QnnGraph_CustomConfig_t, std::uint32_t&) const override {
    return QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE;
  }

  Qnn_ErrorHandle_t compile(ContextState&, const Composed& graph, const Logger& logger,
                            std::unique_ptr<Executable>& made) override {
    auto compiled = std::make_unique<CpuGraph>(logger);
    const Qnn_ErrorHandle_t code = compiled->compile(graph);
    if (code == QNN_SUCCESS) made = std::move(compiled);
    return code;
  }
};

}  // namespace

// The number by which clients know the real one; the name is our own.  libQnnCpu never gives a package a log.
const Identity identity = {3, "CPU_UDOGEN_EMULATOR", {1, 1, 0}, "CPU", false, true, true};

Qnn_ErrorHandle_t startEngine(const Logger&, std::shared_ptr<Engine>& made) {
  made = std::make_shared<CpuEngine>();
  return QNN_SUCCESS;
}

}  // namespace emulator
