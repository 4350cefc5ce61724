// Auto-generated part of every op package with kernels in Qualcomm's style; regenerating rewrites this file.
//
// Kernels of QHPI include this header of the C++ interface and use nothing of it: without an SDK it is empty.
#pragma once

#if __has_include_next("HTP/core/constraints.h")
#include_next "HTP/core/constraints.h"
#endif
