/* Options of a HTP device, declared by udogen's authors.  The union begins at offset 8 in SDK 2.47, 2.48,
 * 2.50 and 2.51, and at 4 in 2.43 and 2.49: a number is written to both places. */
#ifndef UDOGEN_QNN_HTP_DEVICE_H
#define UDOGEN_QNN_HTP_DEVICE_H

#include <stdint.h>
#include <stddef.h>

#include "QnnDevice.h"

typedef enum {
  QNN_HTP_DEVICE_CONFIG_OPTION_SOC = 0,
  QNN_HTP_DEVICE_CONFIG_OPTION_ARCH = 1,
  QNN_HTP_DEVICE_CONFIG_OPTION_SIGNEDPD = 2,
  QNN_HTP_DEVICE_CONFIG_OPTION_UNKNOWN = 0x7fffffff
} QnnHtpDevice_ConfigOption_t;

typedef struct {
  uint32_t deviceId;
  uint32_t arch; /* 68, 73, ... */
} QnnHtpDevice_Minimum_Arch_t;

/* A truth is a byte; 0 is an unsigned process domain. */
typedef struct {
  uint32_t deviceId;
  uint8_t useSignedProcessDomain;
} QnnHtpDevice_UseSignedProcessDomain_t;

typedef struct {
  QnnHtpDevice_ConfigOption_t option;
  uint32_t socModelAt4;
  union {
    uint32_t socModel;
    QnnHtpDevice_Minimum_Arch_t arch;
    QnnHtpDevice_UseSignedProcessDomain_t useSignedProcessDomain;
    uint64_t words[2];
  };
} QnnHtpDevice_CustomConfig_t;

typedef enum {
  QNN_HTP_DEVICE_TYPE_ON_CHIP = 0,
  QNN_HTP_DEVICE_TYPE_OFF_CHIP = 1,
  QNN_HTP_DEVICE_TYPE_UNKNOWN = 0x7fffffff
} QnnHtpDevice_DeviceType_t;

/* A truth is a byte. */
typedef struct {
  size_t vtcmSize; /* in MiB */
  uint32_t socModel;
  uint8_t signedPdSupport;
  uint8_t dlbcSupport;
  uint32_t arch;
} QnnHtpDevice_OnChipDeviceInfoExtension_t;

/* What QnnDevice_HardwareDeviceInfoV1_t::deviceInfoExtension leads to. */
typedef struct _QnnDevice_DeviceInfoExtension_t {
  QnnHtpDevice_DeviceType_t devType;
  union {
    QnnHtpDevice_OnChipDeviceInfoExtension_t onChipDevice;
  };
} QnnHtpDevice_DeviceInfoExtension_t;

#ifdef __cplusplus
static_assert(sizeof(void*) != 8 || sizeof(QnnHtpDevice_DeviceInfoExtension_t) == 32, "device info");
#endif

#endif
