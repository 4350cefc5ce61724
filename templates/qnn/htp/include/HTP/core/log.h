// Auto-generated part of every op package with kernels in Qualcomm's style; regenerating rewrites this file.
//
// The logging that QHPI kernels use from the C++ interface: errors and warnings go to stderr, the rest is discarded.
#pragma once

#if __has_include_next("HTP/core/log.h")
#include_next "HTP/core/log.h"
#else
#include "HTP/core/constraints.h"
#include <cstdio>
#define errlog(format, ...) std::fprintf(stderr, "ERROR: " format "\n", ##__VA_ARGS__)
#define warnlog(format, ...) std::fprintf(stderr, "WARNING: " format "\n", ##__VA_ARGS__)
#define infolog(...) ((void)0)
#define debuglog(...) ((void)0)
#endif
