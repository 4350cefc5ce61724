// Devices: as many as UDOGEN_HTP_DEVICES names, each with its cores, its version of Hexagon and its TCM.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>

#include "HTP/QnnHtpDevice.h"
#include "context_memory.hpp"

namespace emulator {
namespace {

struct Soc {
  const char* name;
  std::uint32_t model, arch, tcm;  // MiB
};
constexpr Soc socs[] = {
#include "socs.inc"
};

template <class Wanted>
const Soc* socWhere(const Wanted& wanted) {
  const Soc* const row = std::find_if(std::begin(socs), std::end(socs), wanted);
  return row == std::end(socs) ? nullptr : row;
}

const Soc* socOf(const std::string& name) {
  return socWhere([&](const Soc& row) { return name == row.name; });
}

/// The hardware of this process: HTP0, HTP1 … in the order of the variable.
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

/// A processor by its number, which releases of the SDK put in two places, or a version of Hexagon.
Qnn_ErrorHandle_t checkCustom(const QnnHtpDevice_CustomConfig_t& given, const Logger& logger) {
  const auto isWanted = [&](const Soc& row) {
    if (given.option == QNN_HTP_DEVICE_CONFIG_OPTION_ARCH) return row.arch == given.arch.arch;
    return row.model != 0 && (row.model == given.socModel || row.model == given.socModelAt4);
  };
  if (given.option == QNN_HTP_DEVICE_CONFIG_OPTION_SOC || given.option == QNN_HTP_DEVICE_CONFIG_OPTION_ARCH) {
    if (socWhere(isWanted) != nullptr) return QNN_SUCCESS;
    logger.error("no processor has the number or the version of Hexagon %u", given.socModel);
    return QNN_DEVICE_ERROR_INVALID_CONFIG;
  }
  return given.option <= 3 ? static_cast<Qnn_ErrorHandle_t>(QNN_SUCCESS)  // signed and unsigned processes
                           : QNN_DEVICE_ERROR_INVALID_CONFIG;
}

/// One of the devices of this machine, with cores that it has.
Qnn_ErrorHandle_t checkHardware(const QnnDevice_PlatformInfo_t* wanted, const Logger& logger) {
  if (wanted == nullptr || wanted->version != QNN_DEVICE_PLATFORM_INFO_VERSION_1 || wanted->v1.numHwDevices != 1) {
    logger.error("a device is created from one hardware device of the platform info");
    return QNN_DEVICE_ERROR_INVALID_CONFIG;
  }
  const QnnDevice_HardwareDeviceInfoV1_t& device = wanted->v1.hwDevices[0].v1;
  const auto& rows = platform().rows;
  if (device.deviceId >= rows.size()) {
    logger.error("HTP%u does not exist, this machine has %zu devices", device.deviceId, rows.size());
    return QNN_DEVICE_ERROR_INVALID_CONFIG;
  }
  const std::size_t cores = rows[device.deviceId].cores.size();
  const auto isThere = [&](const QnnDevice_CoreInfo_t& core) { return core.v1.coreId < cores; };
  if (!std::all_of(device.cores, device.cores + device.numCores, isThere)) {
    logger.error("HTP%u has %zu cores, fewer than are named", device.deviceId, cores);
    return QNN_DEVICE_ERROR_INVALID_CONFIG;
  }
  return QNN_SUCCESS;
}

/// What one process domain may map: "around 3.5GB", or UDOGEN_HTP_SESSION_LIMIT in bytes.
std::size_t domainLimit() {
  static const std::size_t limit = [] {
    const char* const given = std::getenv("UDOGEN_HTP_SESSION_LIMIT");
    return given == nullptr ? std::size_t{3500000000u} : static_cast<std::size_t>(std::strtoull(given, nullptr, 10));
  }();
  return limit;
}

Qnn_ErrorHandle_t deviceCreate(Qnn_LogHandle_t log, const QnnDevice_Config_t** config, Qnn_DeviceHandle_t* made) {
  if (made == nullptr) return QNN_DEVICE_ERROR_INVALID_ARGUMENT;
  return guarded([&]() -> Qnn_ErrorHandle_t {
    const auto found = objects().find<Log>(log);
    if (log != nullptr && found == nullptr) return QNN_DEVICE_ERROR_INVALID_HANDLE;
    const Logger logger(found);
    std::uint32_t number = 0;
    bool isSigned = false;
    for (; config != nullptr && *config != nullptr; ++config) {
      Qnn_ErrorHandle_t code = QNN_DEVICE_ERROR_INVALID_CONFIG;
      if ((*config)->option == QNN_DEVICE_CONFIG_OPTION_CUSTOM && (*config)->customConfig != nullptr) {
        const auto& custom = *static_cast<const QnnHtpDevice_CustomConfig_t*>((*config)->customConfig);
        code = checkCustom(custom, logger);
        isSigned |= custom.option == QNN_HTP_DEVICE_CONFIG_OPTION_SIGNEDPD &&
                    custom.useSignedProcessDomain.useSignedProcessDomain != 0;
      } else if ((*config)->option == QNN_DEVICE_CONFIG_OPTION_PLATFORM_INFO) {
        code = checkHardware((*config)->hardwareInfo, logger);
        if (code == QNN_SUCCESS) number = (*config)->hardwareInfo->v1.hwDevices[0].v1.deviceId;
      }
      if (code != QNN_SUCCESS) return code;
    }
    const auto device = std::make_shared<HtpDevice>(domainOf(number));
    logger.info("HTP%u: %s process domain, %u device handles", number, isSigned ? "signed" : "unsigned",
                device->domain->handles.load());
    *made = objects().add(device);
    return QNN_SUCCESS;
  });
}

}  // namespace

HtpDevice::HtpDevice(std::shared_ptr<Domain> in) : domain(std::move(in)) { ++domain->handles; }
HtpDevice::~HtpDevice() { --domain->handles; }

std::shared_ptr<Domain> domainOf(std::uint32_t number) {
  static std::mutex mutex;
  static std::map<std::uint32_t, std::shared_ptr<Domain>> domains;
  const std::lock_guard<std::mutex> lock(mutex);
  auto& found = domains[number];
  if (found == nullptr) found = std::make_shared<Domain>(number);
  return found;
}

bool Mapping::begin(std::shared_ptr<Domain> in, std::size_t bytes, const Logger& logger) {
  end();
  const std::size_t total = in->mapped += bytes;
  domain_ = std::move(in);
  bytes_ = bytes;
  if (total <= domainLimit()) return true;
  logger.error("the process domain of HTP%u may map %zu bytes, with this context it would be %zu", domain_->number,
               domainLimit(), total);
  end();
  return false;
}

void Mapping::end() {
  if (domain_ != nullptr) domain_->mapped -= bytes_;
  domain_ = nullptr;
}

void fillDevices(QnnInterface_ImplementationV2_t& table) {
  table.deviceGetPlatformInfo = deviceGetPlatformInfo;
  table.deviceCreate = deviceCreate;
}

}  // namespace emulator
