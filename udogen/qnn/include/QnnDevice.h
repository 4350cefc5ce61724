// Devices: what hardware a backend sees.
#ifndef UDOGEN_QNN_DEVICE_H
#define UDOGEN_QNN_DEVICE_H

#include "QnnTypes.h"

#define QNN_DEVICE_DEFAULT_DEVICE_ID 0xFFFFFFFF
#define QNN_DEVICE_DEFAULT_CORE_ID 0xFFFFFFFF

typedef enum {
  QNN_DEVICE_NO_ERROR = 0,
  QNN_DEVICE_ERROR_UNSUPPORTED_FEATURE = 1000,
  QNN_DEVICE_ERROR_MEM_ALLOC = 1002,
  QNN_DEVICE_ERROR_INVALID_ARGUMENT = 1004,
  QNN_DEVICE_ERROR_INVALID_HANDLE = 14000,
  QNN_DEVICE_ERROR_INVALID_CONFIG = 14001,
  QNN_DEVICE_ERROR_HARDWARE_UNAVAILABLE = 14002,
  QNN_DEVICE_ERROR_ASSOCIATED_TO_CONTEXT = 14003,
  QNN_DEVICE_ERROR_UNDEFINED = 0x7FFFFFFF
} QnnDevice_Error_t;

typedef struct _QnnDevice_Infrastructure_t *QnnDevice_Infrastructure_t;
typedef struct _QnnDevice_CoreInfoExtension_t *QnnDevice_CoreInfoExtension_t;
typedef struct _QnnDevice_DeviceInfoExtension_t *QnnDevice_DeviceInfoExtension_t;

typedef struct {
  uint32_t coreId;
  uint32_t coreType;
  QnnDevice_CoreInfoExtension_t coreInfoExtension;
} QnnDevice_CoreInfoV1_t;

typedef enum {
  QNN_DEVICE_CORE_INFO_VERSION_1 = 1,
  QNN_DEVICE_CORE_INFO_VERSION_UNDEFINED = 0x7FFFFFFF
} QnnDevice_CoreInfoVersion_t;

typedef struct {
  QnnDevice_CoreInfoVersion_t version;
  union { QnnDevice_CoreInfoV1_t v1; };
} QnnDevice_CoreInfo_t;

typedef struct {
  uint32_t deviceId;
  uint32_t deviceType;
  uint32_t numCores;
  QnnDevice_CoreInfo_t *cores;
  QnnDevice_DeviceInfoExtension_t deviceInfoExtension;
} QnnDevice_HardwareDeviceInfoV1_t;

typedef enum {
  QNN_DEVICE_HARDWARE_DEVICE_INFO_VERSION_1 = 1,
  QNN_DEVICE_HARDWARE_DEVICE_INFO_VERSION_UNDEFINED = 0x7FFFFFFF
} QnnDevice_HardwareDeviceInfoVersion_t;

typedef struct {
  QnnDevice_HardwareDeviceInfoVersion_t version;
  union { QnnDevice_HardwareDeviceInfoV1_t v1; };
} QnnDevice_HardwareDeviceInfo_t;

typedef struct {
  uint32_t numHwDevices;
  QnnDevice_HardwareDeviceInfo_t *hwDevices;
} QnnDevice_PlatformInfoV1_t;

typedef enum {
  QNN_DEVICE_PLATFORM_INFO_VERSION_1 = 1,
  QNN_DEVICE_PLATFORM_INFO_VERSION_UNDEFINED = 0x7FFFFFFF
} QnnDevice_PlatformInfoVersion_t;

typedef struct {
  QnnDevice_PlatformInfoVersion_t version;
  union { QnnDevice_PlatformInfoV1_t v1; };
} QnnDevice_PlatformInfo_t;

typedef enum {
  QNN_DEVICE_CONFIG_OPTION_CUSTOM = 0,
  QNN_DEVICE_CONFIG_OPTION_PLATFORM_INFO = 1,
  QNN_DEVICE_CONFIG_OPTION_UNDEFINED = 0x7FFFFFFF
} QnnDevice_ConfigOption_t;

typedef void *QnnDevice_CustomConfig_t;
typedef struct {
  QnnDevice_ConfigOption_t option;
  union {
    QnnDevice_CustomConfig_t customConfig;
    QnnDevice_PlatformInfo_t *hardwareInfo;
  };
} QnnDevice_Config_t;

#endif
