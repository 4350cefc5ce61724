// The QNN SDK has UDO's headers here.
#ifndef UDOGEN_QNN_DSP_UDO_REG_H
#define UDOGEN_QNN_DSP_UDO_REG_H

#include "SnpeUdo/UdoReg.h"

#endif
