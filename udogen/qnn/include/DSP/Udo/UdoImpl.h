// The QNN SDK has UDO's headers here.
#ifndef UDOGEN_QNN_DSP_UDO_IMPL_H
#define UDOGEN_QNN_DSP_UDO_IMPL_H

#include "SnpeUdo/UdoImpl.h"

#endif
