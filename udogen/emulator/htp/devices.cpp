// Devices: as many as UDOGEN_HTP_DEVICES names, each with its cores, its version of Hexagon and its TCM.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "HTP/QnnHtpDevice.h"
#include "overrides.hpp"

namespace emulator {
namespace {

struct Soc {
  const char* name;
  std::uint32_t model, arch, tcm;  // MiB
};
constexpr Soc socs[] = {
#include "socs.inc"
};

const Soc* socOf(std::uint32_t model) {
  for (const Soc& row : socs) {
    if (row.model == model && model != 0) return &row;
  }
  return nullptr;
}

const Soc* socOf(const std::string& name) {
  for (const Soc& row : socs) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

/// What the process is stages of its hardware, once: HTP0, HTP1 … in the order of the variable.
struct Platform {
  struct Row {
    Soc soc;
    std::vector<QnnDevice_CoreInfo_t> cores;
    QnnHtpDevice_DeviceInfoExtension_t extension;
  };
  std::vector<Row> rows;
  std::vector<QnnDevice_HardwareDeviceInfo_t> devices;
  QnnDevice_PlatformInfo_t info = {};
  std::string fault;

  Platform() {
    const char* const given = std::getenv("UDOGEN_HTP_DEVICES");
    std::istringstream texts(given == nullptr ? "SM8650" : given);
    for (std::string text; std::getline(texts, text, ',');) add(text);
    if (rows.empty()) add("SM8650");
    for (std::size_t i = 0; i < rows.size(); ++i) {
      Row& row = rows[i];
      QnnDevice_HardwareDeviceInfo_t device = {};
      device.version = QNN_DEVICE_HARDWARE_DEVICE_INFO_VERSION_1;
      device.v1 = {static_cast<std::uint32_t>(i), 0, static_cast<std::uint32_t>(row.cores.size()), row.cores.data(),
                   &row.extension};
      devices.push_back(device);
    }
    info.version = QNN_DEVICE_PLATFORM_INFO_VERSION_1;
    info.v1 = {static_cast<std::uint32_t>(devices.size()), devices.data()};
  }

 private:
  /// A name, and how many cores it has: SM8650, SA8295x4.
  void add(const std::string& text) {
    const std::size_t times = text.rfind('x');
    const Soc* soc = socOf(text);
    unsigned long cores = 1;
    if (soc == nullptr && times != std::string::npos) {
      soc = socOf(text.substr(0, times));
      cores = std::strtoul(text.c_str() + times + 1, nullptr, 10);
    }
    if (soc == nullptr || cores < 1 || cores > 16) {
      fault = "UDOGEN_HTP_DEVICES: `" + text + "` is not a processor, as in SM8650,SA8295x4";
      return;
    }
    Row row = {*soc, {}, {}};
    for (std::uint32_t i = 0; i < cores; ++i) {
      QnnDevice_CoreInfo_t core = {};
      core.version = QNN_DEVICE_CORE_INFO_VERSION_1;
      core.v1 = {i, 0, nullptr};
      row.cores.push_back(core);
    }
    row.extension.devType = QNN_HTP_DEVICE_TYPE_ON_CHIP;
    row.extension.onChipDevice = {soc->tcm, soc->model, 1, 1, soc->arch};
    rows.push_back(std::move(row));
  }
};

const Platform& platform() {
  static const Platform all;
  return all;
}

Qnn_ErrorHandle_t deviceGetPlatformInfo(Qnn_LogHandle_t log, const QnnDevice_PlatformInfo_t** info) {
  if (info == nullptr) return QNN_DEVICE_ERROR_INVALID_ARGUMENT;
  if (log != nullptr && objects().find<Log>(log) == nullptr) return QNN_DEVICE_ERROR_INVALID_HANDLE;
  return guarded([&]() -> Qnn_ErrorHandle_t {
    if (!platform().fault.empty()) Logger(objects().find<Log>(log)).error("%s", platform().fault.c_str());
    *info = &platform().info;
    return QNN_SUCCESS;
  });
}

Qnn_ErrorHandle_t deviceFreePlatformInfo(Qnn_LogHandle_t, const QnnDevice_PlatformInfo_t* info) {
  return info == &platform().info ? QNN_SUCCESS : QNN_DEVICE_ERROR_INVALID_ARGUMENT;
}

/// A processor by its number, which releases of the SDK put in two places, or a version of Hexagon.
Qnn_ErrorHandle_t checkCustom(const QnnHtpDevice_CustomConfig_t& given, const Logger& logger) {
  if (given.option == QNN_HTP_DEVICE_CONFIG_OPTION_SOC) {
    if (socOf(given.socModel) != nullptr || socOf(given.socModelAt4) != nullptr) return QNN_SUCCESS;
    logger.error("no processor has the number %u", given.socModel);
    return QNN_DEVICE_ERROR_INVALID_CONFIG;
  }
  if (given.option == QNN_HTP_DEVICE_CONFIG_OPTION_ARCH) {
    for (const Soc& row : socs) {
      if (row.arch == given.arch.arch) return QNN_SUCCESS;
    }
    logger.error("no processor has Hexagon v%u", given.arch.arch);
    return QNN_DEVICE_ERROR_INVALID_CONFIG;
  }
  return given.option <= 3 ? static_cast<Qnn_ErrorHandle_t>(QNN_SUCCESS)  // signed and unsigned processes
                           : QNN_DEVICE_ERROR_INVALID_CONFIG;
}

/// One of the devices of this machine, with cores that it has.
Qnn_ErrorHandle_t checkHardware(const QnnDevice_PlatformInfo_t* wanted, const Logger& logger) {
  if (wanted == nullptr || wanted->version != QNN_DEVICE_PLATFORM_INFO_VERSION_1 || wanted->v1.numHwDevices != 1) {
    logger.error("a device is made of one hardware device of the platform info");
    return QNN_DEVICE_ERROR_INVALID_CONFIG;
  }
  const QnnDevice_HardwareDeviceInfoV1_t& device = wanted->v1.hwDevices[0].v1;
  const auto& rows = platform().rows;
  if (device.deviceId >= rows.size()) {
    logger.error("HTP%u does not exist, this machine has %zu devices", device.deviceId, rows.size());
    return QNN_DEVICE_ERROR_INVALID_CONFIG;
  }
  for (std::uint32_t i = 0; i < device.numCores; ++i) {
    if (device.cores[i].v1.coreId < rows[device.deviceId].cores.size()) continue;
    logger.error("HTP%u has no core %u: it has %zu", device.deviceId, device.cores[i].v1.coreId,
                 rows[device.deviceId].cores.size());
    return QNN_DEVICE_ERROR_INVALID_CONFIG;
  }
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t deviceCreate(Qnn_LogHandle_t log, const QnnDevice_Config_t** config, Qnn_DeviceHandle_t* made) {
  if (made == nullptr) return QNN_DEVICE_ERROR_INVALID_ARGUMENT;
  return guarded([&]() -> Qnn_ErrorHandle_t {
    const auto found = objects().find<Log>(log);
    if (log != nullptr && found == nullptr) return QNN_DEVICE_ERROR_INVALID_HANDLE;
    const Logger logger(found);
    for (; config != nullptr && *config != nullptr; ++config) {
      Qnn_ErrorHandle_t code = QNN_DEVICE_ERROR_INVALID_CONFIG;
      if ((*config)->option == QNN_DEVICE_CONFIG_OPTION_CUSTOM && (*config)->customConfig != nullptr) {
        code = checkCustom(*static_cast<const QnnHtpDevice_CustomConfig_t*>((*config)->customConfig), logger);
      } else if ((*config)->option == QNN_DEVICE_CONFIG_OPTION_PLATFORM_INFO) {
        code = checkHardware((*config)->hardwareInfo, logger);
      }
      if (code != QNN_SUCCESS) return code;
    }
    *made = objects().add(std::make_shared<Device>());
    return QNN_SUCCESS;
  });
}

Qnn_ErrorHandle_t deviceGetInfo(Qnn_DeviceHandle_t handle, const QnnDevice_PlatformInfo_t** info) {
  if (objects().find<Device>(handle) == nullptr) return QNN_DEVICE_ERROR_INVALID_HANDLE;
  return deviceGetPlatformInfo(nullptr, info);
}

/// With the execution that UDOGEN_HTP_LOST_AFTER numbers all devices are lost, as when a DSP restarts, until the next
/// backend is created.
struct Loss {
  std::atomic<long> left{0};
  std::atomic<bool> isNow{false};
} loss;

Qnn_ErrorHandle_t executeOrLose(Qnn_GraphHandle_t graph, const Qnn_Tensor_t* inputs, std::uint32_t numInputs,
                                Qnn_Tensor_t* outputs, std::uint32_t numOutputs, Qnn_ProfileHandle_t profile,
                                Qnn_SignalHandle_t signal) {
  if (loss.left-- == 0) loss.isNow = true;
  if (loss.isNow) return QNN_COMMON_ERROR_SYSTEM_COMMUNICATION;
  return core.graphExecute(graph, inputs, numInputs, outputs, numOutputs, profile, signal);
}

Qnn_ErrorHandle_t createAgain(Qnn_LogHandle_t log, const QnnBackend_Config_t** config, Qnn_BackendHandle_t* backend) {
  loss.isNow = false;
  return core.backendCreate(log, config, backend);
}

}  // namespace

void fillDevices(QnnInterface_ImplementationV2_t& table) {
  table.deviceGetPlatformInfo = deviceGetPlatformInfo;
  table.deviceFreePlatformInfo = deviceFreePlatformInfo;
  table.deviceCreate = deviceCreate;
  table.deviceGetInfo = deviceGetInfo;
  if (const char* const lostAfter = std::getenv("UDOGEN_HTP_LOST_AFTER")) {
    loss.left = std::strtol(lostAfter, nullptr, 10);
    table.graphExecute = executeOrLose;
    table.backendCreate = createAgain;
  }
}

}  // namespace emulator
