// Memory that the runtime allocates for copies of tensors, between inaccessible pages.
//
// Some runtimes hand copies of udogen's buffers to an op, so walls around those would be in the
// wrong place. What the runtime's library allocates with exactly the size of a tensor lies in an arena here instead.
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "watch.h"

#define EXPORT __attribute__((visibility("default")))
#define PAGE ((size_t)4096)
#define ARENA ((size_t)4 << 30)
#define MOST 4096   // allocations
#define TENSORS 64

typedef struct {
  char *begin;
  size_t size;
  bool live;
} Region;

static char *arena;
static size_t used;
static Region regions[MOST];
static int region_count;
static struct { const void *content; size_t size; } tensors[TENSORS];
static int tensor_count;
static bool taking, at_end;
static uintptr_t code_begin, code_end;  // of the runtime

int udogen_fence_owns(const void *pointer) {
  return arena != NULL && (size_t)((const char *)pointer - arena) < ARENA;
}

static size_t inside_of(size_t size) { return (size + PAGE - 1) / PAGE * PAGE; }

void *udogen_fence_take(size_t size, uintptr_t caller) {
  if (!taking || size == 0 || caller - code_begin >= code_end - code_begin) return NULL;
  int of_tensor = 0;
  for (int i = 0; i < tensor_count; i++) of_tensor |= tensors[i].size == size;
  size_t inside = inside_of(size);
  if (!of_tensor || region_count == MOST || used + inside + 2 * PAGE > ARENA) return NULL;
  char *begin = arena + used + PAGE;
  if (syscall(SYS_mprotect, begin, inside, PROT_READ | PROT_WRITE) != 0) return NULL;
  used += inside + PAGE;  // the page behind is the one before the next
  begin += at_end ? inside - size : 0;
  regions[region_count++] = (Region){begin, size, true};
  return begin;
}

static Region *region_of(const void *pointer) {
  for (int i = 0; i < region_count; i++)
    if (regions[i].begin == pointer) return &regions[i];
  return NULL;
}

size_t udogen_fence_size(const void *pointer) {
  Region *region = region_of(pointer);
  return region ? region->size : 0;
}

// What is freed stays closed: a later use of it is seen too.
void udogen_fence_free(void *pointer) {
  Region *region = region_of(pointer);
  if (region == NULL) return;
  region->live = false;
  char *page = (char *)((uintptr_t)region->begin & ~(PAGE - 1));
  syscall(SYS_mprotect, page, inside_of(region->size), PROT_NONE);
  syscall(SYS_madvise, page, inside_of(region->size), MADV_DONTNEED);
}

// --- what Python calls ----------------------------------------------------------------------------------------

EXPORT int udogen_fence_begin(const char *runtime, int end) {
  if (!udogen_watch_code(runtime, &code_begin, &code_end)) return 0;
  if (arena == NULL) {
    void *made = (void *)syscall(SYS_mmap, NULL, ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);
    if (made == MAP_FAILED) return 0;
    arena = made;
  }
  if (used > ARENA / 2) used = 0, region_count = 0;
  tensor_count = 0, at_end = end != 0, taking = true;
  return 1;
}

// A tensor of the graph; its number is its place in the order of these calls.
EXPORT void udogen_fence_tensor(const void *content, size_t size) {
  if (tensor_count == TENSORS) return;
  tensors[tensor_count].content = content;
  tensors[tensor_count++].size = size;
}

EXPORT void udogen_fence_end(void) { taking = false, tensor_count = 0; }

// The tensor of which this is a copy, judged by its content; -1 if it is none.
static int copy_of(const Region *region) {
  for (int i = 0; i < tensor_count; i++)
    if (tensors[i].size == region->size && !memcmp(tensors[i].content, region->begin, region->size)) return i;
  return -1;
}

// The first byte at which the copy of a tensor is another than the tensor; -1 where it is the same, or there is none.
EXPORT long udogen_fence_changed(int number) {
  const char *content = tensors[number].content;
  const size_t size = tensors[number].size;
  long found = -1;
  for (int i = 0; i < region_count; i++) {
    if (!regions[i].live || regions[i].size != size) continue;
    size_t same = 0;
    long first = -1;
    for (size_t at = 0; at < size; at++) {
      if (regions[i].begin[at] == content[at]) same++;
      else if (first < 0) first = (long)at;
    }
    if (first < 0) return -1;
    if (same * 2 > size) found = first;  // mostly the same: a copy that was changed
  }
  return found;
}

void udogen_fence_tell(void) {
  char line[128];
  for (int i = 0; i < region_count; i++) {
    if (!regions[i].live) continue;
    int length = snprintf(line, sizeof line, "udogen-region 0x%lx %zu %d\n", (unsigned long)(uintptr_t)regions[i].begin,
                          regions[i].size, copy_of(&regions[i]));
    if (length > 0 && write(STDERR_FILENO, line, (size_t)length) < 0) return;
  }
}
