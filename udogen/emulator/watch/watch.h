// What udogen preloads into the process in which ops run, to see what a kernel does with memory.
//
// Python (udogen/runtime/op/watch.py) mirrors the structs and calls the functions; nothing else does.
#ifndef UDOGEN_WATCH_H
#define UDOGEN_WATCH_H

#include <stddef.h>
#include <stdint.h>

#define UDOGEN_WATCH_VERSION 2
#define UDOGEN_DEPTH 48  // frames of a stack that are kept
#define UDOGEN_SITES 512

// One place that allocates: its stack, innermost frame first, as far as the outermost frame of the package.
typedef struct {
  uint64_t hash;
  uint64_t count;  // allocations
  uint64_t bytes;
  uint64_t first_turn;  // of udogen_watch_turn, when it was seen first and last
  uint64_t last_turn;
  uint32_t kind;   // index into udogen_watch_kinds
  uint32_t depth;
  void *frames[UDOGEN_DEPTH];
} udogen_site;

typedef struct {
  uint64_t seen;      // allocations while it was armed, by any caller
  uint64_t examined;  // of those: stacks that were walked
  uint64_t lost;      // allocations of the package that there was no room to remember
  uint64_t sites;
} udogen_counts;

// Where the code of a library is that is loaded from this (real) path; 0 where none is.
int udogen_watch_code(const char *path, uintptr_t *begin, uintptr_t *end);

// fence.c, as heap.c asks it.
void *udogen_fence_take(size_t size, uintptr_t caller);  // NULL: this allocation is none of its business
int udogen_fence_owns(const void *pointer);
size_t udogen_fence_size(const void *pointer);
void udogen_fence_free(void *pointer);
void udogen_fence_tell(void);

#endif
