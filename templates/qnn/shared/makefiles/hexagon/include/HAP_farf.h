// Auto-generated part of op packages whose kernels include it; regenerating rewrites this file.
//
// Replaces the header of this name in the Hexagon SDK if no SDK is installed: macros that write to the log of the DSP.
#pragma once

#include <stdio.h>

#if defined(__cplusplus)
extern "C"
#endif
    __attribute__((weak)) void
    HAP_debug_v2(int level, const char* file, int line, const char* format, ...);

// In a simulator, which has no log of the DSP, lines go to stderr.
#define FARF_LINE(level, ...)                                               \
  do {                                                                      \
    if (HAP_debug_v2) {                                                     \
      HAP_debug_v2(level, __FILE__, __LINE__, __VA_ARGS__);                 \
    } else {                                                                \
      fprintf(stderr, __VA_ARGS__);                                         \
      fputc('\n', stderr);                                                  \
    }                                                                       \
  } while (0)

// LOW and MEDIUM are written if FARF_LOW or FARF_MEDIUM is defined as 1.
#if !defined(FARF_LOW)
#define FARF_LOW 0
#endif
#if !defined(FARF_MEDIUM)
#define FARF_MEDIUM 0
#endif
#define FARF_OF_LOW(...) do { if (FARF_LOW) FARF_LINE(0, __VA_ARGS__); } while (0)
#define FARF_OF_MEDIUM(...) do { if (FARF_MEDIUM) FARF_LINE(1, __VA_ARGS__); } while (0)
#define FARF_OF_HIGH(...) FARF_LINE(2, __VA_ARGS__)
#define FARF_OF_RUNTIME_HIGH(...) FARF_LINE(2, __VA_ARGS__)
#define FARF_OF_ALWAYS(...) FARF_LINE(2, __VA_ARGS__)
#define FARF_OF_ERROR(...) FARF_LINE(3, __VA_ARGS__)
#define FARF_OF_RUNTIME_ERROR(...) FARF_LINE(3, __VA_ARGS__)
#define FARF_OF_FATAL(...) FARF_LINE(4, __VA_ARGS__)
#define FARF(level, ...) FARF_OF_##level(__VA_ARGS__)
