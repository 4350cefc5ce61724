// The QNN SDK has UDO's headers here.
#ifndef UDOGEN_QNN_DSP_UDO_BASE_H
#define UDOGEN_QNN_DSP_UDO_BASE_H

#include "SnpeUdo/UdoBase.h"

#endif
