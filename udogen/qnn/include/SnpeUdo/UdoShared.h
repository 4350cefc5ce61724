// What registration and implementation libraries both export.
#ifndef UDOGEN_QNN_SNPE_UDO_SHARED_H
#define UDOGEN_QNN_SNPE_UDO_SHARED_H

#include "SnpeUdo/UdoBase.h"

#ifdef __cplusplus
extern "C" {
#endif

SnpeUdo_ErrorType_t SnpeUdo_getVersion(SnpeUdo_LibVersion_t **version);
typedef SnpeUdo_ErrorType_t (*SnpeUdo_GetVersionFunction_t)(SnpeUdo_LibVersion_t **version);
typedef SnpeUdo_GetVersionFunction_t Udo_GetVersionFunction_t;

#ifdef __cplusplus
}
#endif

#endif
