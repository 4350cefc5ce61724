// Auto-generated part of every op package with kernels in Qualcomm's style; regenerating rewrites this file.
//
// QHPI kernels include this header of the C++ interface for the name of their package.
#pragma once

#if __has_include_next("HTP/core/constraints.h")
#include_next "HTP/core/constraints.h"
#elif !defined(THIS_PKG_NAME_STR)
#define UDO_TEXT_OF(name) #name
#define UDO_EXPANDED_TEXT_OF(name) UDO_TEXT_OF(name)
#define THIS_PKG_NAME_STR UDO_EXPANDED_TEXT_OF(THIS_PKG_NAME)
#endif
