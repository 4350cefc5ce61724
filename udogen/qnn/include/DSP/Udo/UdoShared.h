// The QNN SDK has UDO's headers here.
#ifndef UDOGEN_QNN_DSP_UDO_SHARED_H
#define UDOGEN_QNN_DSP_UDO_SHARED_H

#include "SnpeUdo/UdoShared.h"

#endif
