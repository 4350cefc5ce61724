// The QNN SDK has UDO's headers here.
#ifndef UDOGEN_QNN_DSP_UDO_IMPL_DSP_H
#define UDOGEN_QNN_DSP_UDO_IMPL_DSP_H

#include "SnpeUdo/UdoImplDsp.h"

#endif
