// The GPU backend of the emulator: op packages of libQnnGpu.so, on whatever OpenCL there is.
#include <algorithm>
#include <cstring>

#include "GPU/QnnGpuOpPackage.h"
#include "graph.hpp"

namespace emulator {
namespace {

class ClEngine : public Engine {
 public:
  explicit ClEngine(std::shared_ptr<ClDevice> device) : device_(std::move(device)) {
    const std::string version = device_->text(CL_DEVICE_VERSION);
    std::memcpy(properties_.deviceVersion, version.c_str(), std::min(version.size(), sizeof properties_.deviceVersion - 1));
    properties_.maxWorkGroupSize = device_->info<std::size_t>(CL_DEVICE_MAX_WORK_GROUP_SIZE);
    properties_.image1dBufferMaxWidth = device_->info<std::size_t>(CL_DEVICE_IMAGE_MAX_BUFFER_SIZE);
    properties_.image2dMaxWidth = device_->info<std::size_t>(CL_DEVICE_IMAGE2D_MAX_WIDTH);
    properties_.image2dMaxHeight = device_->info<std::size_t>(CL_DEVICE_IMAGE2D_MAX_HEIGHT);
    properties_.maxBufferAllocSize = device_->info<cl_ulong>(CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    properties_.baseAddrAlignment = device_->info<cl_uint>(CL_DEVICE_MEM_BASE_ADDR_ALIGN);
    properties_.image2dArrayMaxWidth = properties_.image2dMaxWidth;
    properties_.image2dArrayMaxHeight = properties_.image2dMaxHeight;
    properties_.image2dArrayMaxDepth = device_->info<std::size_t>(CL_DEVICE_IMAGE_MAX_ARRAY_SIZE);
    properties_.isLocalMemorySupported = true;
    version_ = {{QNN_API_VERSION_MAJOR, QNN_API_VERSION_MINOR, QNN_API_VERSION_PATCH}, identity.version};
    infrastructure_ = {&version_, &properties_, "libOpenCL.so.1"};
  }

  const std::string& title() const override { return device_->title; }

  QnnOpPackage_GlobalInfrastructure_t infrastructure() override {
    return reinterpret_cast<QnnOpPackage_GlobalInfrastructure_t>(&infrastructure_);
  }

  std::unique_ptr<ContextState> makeContextState() override { return std::make_unique<Programs>(device_); }

  // Kept with one added, so that 0 means that no config was given.
  Qnn_ErrorHandle_t configure(QnnGraph_CustomConfig_t config, std::uint32_t& option) const override {
    if (config == nullptr) return QNN_GRAPH_ERROR_INVALID_ARGUMENT;
    const auto* const wanted = static_cast<const QnnGpuGraph_CustomConfig_t*>(config);
    if (wanted->precision > QNN_GPU_PRECISION_USER_PROVIDED) return QNN_GRAPH_ERROR_INVALID_ARGUMENT;
    option = static_cast<std::uint32_t>(wanted->precision) + 1;
    return QNN_SUCCESS;
  }

  Qnn_ErrorHandle_t compile(ContextState& shared, const Composed& graph, const Logger& logger,
                            std::unique_ptr<Executable>& made) override {
    QnnGpuOpPackage_GraphInfrastructure_t infrastructure = {QNN_GPU_PRECISION_USER_PROVIDED, &properties_};
    if (graph.option != 0) infrastructure.precisionMode = static_cast<QnnGpu_Precision_t>(graph.option - 1);
    auto compiled = std::make_unique<ClGraph>(device_, logger);
    const Qnn_ErrorHandle_t code = compiled->compile(
        static_cast<Programs&>(shared), graph, reinterpret_cast<QnnOpPackage_GraphInfrastructure_t>(&infrastructure));
    if (code == QNN_SUCCESS) made = std::move(compiled);
    return code;
  }

 private:
  std::shared_ptr<ClDevice> device_;
  QnnGpu_DeviceProperties_t properties_ = {};
  Qnn_ApiVersion_t version_ = {};
  QnnGpuOpPackage_GlobalInfrastructure_t infrastructure_ = {};
};

}  // namespace

const Identity identity = {4, "GPU_UDOGEN_EMULATOR", {3, 12, 0}, "GPU"};

Qnn_ErrorHandle_t startEngine(const Logger& logger, std::shared_ptr<Engine>& made) {
  // One for the process: packages get its properties once.
  static std::mutex mutex;
  static std::weak_ptr<Engine> shared;
  const std::lock_guard<std::mutex> lock(mutex);
  if ((made = shared.lock()) != nullptr) return QNN_SUCCESS;
  auto device = ClDevice::open(logger);
  if (device == nullptr) return QNN_BACKEND_ERROR_CANNOT_INITIALIZE;
  made = std::make_shared<ClEngine>(std::move(device));
  shared = made;
  return QNN_SUCCESS;
}

}  // namespace emulator
