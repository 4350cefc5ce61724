// Errors of the error interface itself (a backend may put its numbers into words).
#ifndef UDOGEN_QNN_ERROR_H
#define UDOGEN_QNN_ERROR_H

#include "QnnCommon.h"

typedef enum {
  QNN_ERROR_NO_ERROR = 0,
  QNN_ERROR_INVALID_ARGUMENT = 10000,
  QNN_ERROR_INVALID_ERROR_HANDLE = 10001,
  QNN_ERROR_UNDEFINED = 0x7FFFFFFF
} QnnError_Error_t;

#endif
