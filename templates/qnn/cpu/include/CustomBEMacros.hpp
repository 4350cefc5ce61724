// Auto-generated part of every op package with kernels in Qualcomm's style; regenerating rewrites this file.
//
// Checks that make a function return.  A `;` after them is optional.
#pragma once

#define QNN_CUSTOM_BE_ENSURE(value, return_error) \
  {                                               \
    if (!(value)) return (return_error);          \
  }

#define QNN_CUSTOM_BE_ENSURE_EQ(a, b, return_error) QNN_CUSTOM_BE_ENSURE((a) == (b), return_error)

#define QNN_CUSTOM_BE_ENSURE_STATUS(status)                  \
  {                                                          \
    const Qnn_ErrorHandle_t ensuredStatus = (status);        \
    if (ensuredStatus != QNN_SUCCESS) return ensuredStatus; \
  }
