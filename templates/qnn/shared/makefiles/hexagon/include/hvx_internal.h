// Auto-generated part of op packages whose kernels include it; regenerating rewrites this file.
//
// Replaces the header of this name in the Hexagon SDK (libs/qhl_hvx) if no SDK is installed: small helpers of HVX
// kernels.
#pragma once

#include <hexagon_types.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__hexagon__)
#include <hexagon_protos.h>
#include <hvx_hexagon_protos.h>
#endif

#define VLEN 128
#define LOG2VLEN 7
#define HVX_INLINE_ALWAYS inline __attribute__((always_inline, unused))
// Kernels use the keyword of C.
#define restrict __restrict

/// A pair of vectors, as one value or as two.
typedef union {
  HVX_VectorPair VV;
  struct {
    HVX_Vector lo;
    HVX_Vector hi;
  } V;
} HVX_DV;

/// Whether an address is a multiple of `alignment`, a power of two.
static HVX_INLINE_ALWAYS bool is_aligned(const void* address, uint32_t alignment) {
  return ((uintptr_t)address & (alignment - 1)) == 0;
}

/// Whether `count` bytes from an address on end in the block of `size` bytes, a power of two, in which they begin.
static HVX_INLINE_ALWAYS bool is_in_one_chunk(const void* address, uint32_t count, uint32_t size) {
  return ((uintptr_t)address & (size - 1)) + count <= size;
}

/// Prefetches `height` rows of `width` bytes, `stride` bytes apart, into the cache.
static HVX_INLINE_ALWAYS void l2fetch(const void* address, uint32_t stride, uint32_t width, uint32_t height, uint32_t byColumn) {
#if defined(__hexagon__)
  const uint64_t block = (uint64_t)byColumn << 48 | (uint64_t)stride << 32 | (uint64_t)width << 16 | height;
  __asm__ volatile("l2fetch(%0,%1)" : : "r"(address), "r"(block));
#endif
}

/// Stores the first `count` bytes of a vector, at any address.
static HVX_INLINE_ALWAYS void vstu_variable(void* address, uint32_t count, HVX_Vector vector) {
  memcpy(address, &vector, count);
}
