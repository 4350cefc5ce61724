// Allocations of an op package: malloc and its kin, interposed.
//
// What counts is an allocation with a frame of the package's library on its stack: the runtime allocates too, and so
// does Python. Walking each stack would cost too much, so the raw words of the stack are looked through first: only
// where one of them points into the package's code the stack is walked for what it is.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "watch.h"

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

#define EXPORT __attribute__((visibility("default")))
#define RARE(x) __builtin_expect(!!(x), 0)
#define OWN __attribute__((tls_model("initial-exec")))

enum { MALLOC, CALLOC, REALLOC, ALIGNED, MMAP };
EXPORT const char *const udogen_watch_kinds[] = {"malloc", "calloc", "realloc", "aligned_alloc", "mmap"};

EXPORT volatile uint64_t udogen_watch_turn;  // which execution it is

static atomic_bool armed;
static uintptr_t code_begin, code_end;  // of the package
static uintptr_t our_begin, our_end;
static uintptr_t armed_limit;  // no frame of the package is above this in the thread that armed
static pthread_t armed_thread;
static udogen_site sites[UDOGEN_SITES];
static udogen_counts counts;
static atomic_flag lock = ATOMIC_FLAG_INIT;

static _Thread_local bool busy OWN;
static _Thread_local uintptr_t stack_end OWN;

static void take(void) {
  while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire)) __builtin_ia32_pause();
}
static void give(void) { atomic_flag_clear_explicit(&lock, memory_order_release); }

static bool of_package(uintptr_t address) { return address - code_begin < code_end - code_begin; }
static bool of_ours(uintptr_t address) { return address - our_begin < our_end - our_begin; }

// --- who allocates --------------------------------------------------------------------------------------------

static uintptr_t end_of_stack(void) {
  if (stack_end == 0) {
    pthread_attr_t attributes;
    void *begin = NULL;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
      pthread_attr_getstack(&attributes, &begin, &size);
      pthread_attr_destroy(&attributes);
    }
    stack_end = (uintptr_t)begin + size;
  }
  if (pthread_equal(pthread_self(), armed_thread) && armed_limit < stack_end) return armed_limit;
  return stack_end;
}

static bool may_be_on_stack(void) {
  const uintptr_t *word = __builtin_frame_address(0), *end = (const uintptr_t *)(end_of_stack() & ~(uintptr_t)63);
  const uintptr_t begin = code_begin, span = code_end - code_begin;
  for (; word + 8 <= end; word += 8) {
    unsigned found = 0;
    for (int i = 0; i < 8; i++) found |= word[i] - begin < span;
    if (found) return true;
  }
  for (; word < end; word++)
    if (*word - begin < span) return true;
  return false;
}

static void record(size_t size, uint32_t kind, void *const *frames, int depth) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (int i = 0; i < depth; i++) hash = (hash ^ (uintptr_t)frames[i]) * 0x100000001B3u;
  take();
  uint64_t index = 0;
  while (index < counts.sites && sites[index].hash != hash) index++;
  if (index == UDOGEN_SITES) {
    counts.lost++;
    give();
    return;
  }
  udogen_site *site = &sites[index];
  if (index == counts.sites) {
    memset(site, 0, sizeof *site);
    site->hash = hash, site->kind = kind, site->depth = (uint32_t)depth, site->first_turn = udogen_watch_turn;
    memcpy(site->frames, frames, (size_t)depth * sizeof *frames);
    counts.sites++;
  }
  site->count++;
  site->bytes += size;
  site->last_turn = udogen_watch_turn;
  give();
}

__attribute__((noinline, cold)) static void examine(size_t size, uint32_t kind, void *caller) {
  if (busy) return;
  busy = true;
  const int kept = errno;
  counts.seen++;
  if (of_package((uintptr_t)caller) || may_be_on_stack()) {
    counts.examined++;
    void *frames[UDOGEN_DEPTH + 8];
    int depth = backtrace(frames, UDOGEN_DEPTH + 8), begin = 0, end = 0;
    while (begin < depth && of_ours((uintptr_t)frames[begin])) begin++;
    for (int i = begin; i < depth; i++)
      if (of_package((uintptr_t)frames[i])) end = i + 1;
    if (end > begin) record(size, kind, frames + begin, end - begin > UDOGEN_DEPTH ? UDOGEN_DEPTH : end - begin);
  }
  errno = kept;
  busy = false;
}

#define NOTE(made, size, kind)                                                                \
  do {                                                                                        \
    if (RARE(atomic_load_explicit(&armed, memory_order_relaxed)) && (made) != NULL)           \
      examine(size, kind, __builtin_return_address(0));                                       \
  } while (0)

// --- the functions themselves ---------------------------------------------------------------------------------

#define FENCED(size) udogen_fence_take(size, (uintptr_t)__builtin_return_address(0))

EXPORT void *malloc(size_t size) {
  void *made = FENCED(size);
  if (made != NULL) return made;
  made = __libc_malloc(size);
  NOTE(made, size, MALLOC);
  return made;
}

EXPORT void *calloc(size_t number, size_t size) {
  void *made = FENCED(number * size);  // which is filled with zeros as it comes from the system
  if (made != NULL) return made;
  made = __libc_calloc(number, size);
  NOTE(made, number * size, CALLOC);
  return made;
}

static void *moved(void *old, size_t size) {
  void *made = __libc_malloc(size);
  if (made == NULL) return NULL;
  size_t had = udogen_fence_size(old);
  memcpy(made, old, had < size ? had : size);
  udogen_fence_free(old);
  return made;
}

EXPORT void *realloc(void *old, size_t size) {
  void *made = udogen_fence_owns(old) ? moved(old, size) : __libc_realloc(old, size);
  NOTE(made, size, REALLOC);
  return made;
}

EXPORT void *reallocarray(void *old, size_t number, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(number, size, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  void *made = udogen_fence_owns(old) ? moved(old, bytes) : __libc_realloc(old, bytes);
  NOTE(made, bytes, REALLOC);
  return made;
}

EXPORT void free(void *pointer) {
  if (RARE(udogen_fence_owns(pointer))) {
    udogen_fence_free(pointer);
    return;
  }
  __libc_free(pointer);
}

EXPORT void *memalign(size_t alignment, size_t size) {
  void *made = FENCED(size);
  if (made != NULL) return made;
  made = __libc_memalign(alignment, size);
  NOTE(made, size, ALIGNED);
  return made;
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
  void *made = FENCED(size);
  if (made != NULL) return made;
  made = __libc_memalign(alignment, size);
  NOTE(made, size, ALIGNED);
  return made;
}

EXPORT int posix_memalign(void **place, size_t alignment, size_t size) {
  if (alignment % sizeof(void *) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0) return EINVAL;
  void *made = FENCED(size);
  if (made != NULL) {
    *place = made;
    return 0;
  }
  const int kept = errno;
  made = __libc_memalign(alignment, size);
  errno = kept;
  if (made == NULL) return ENOMEM;
  NOTE(made, size, ALIGNED);
  *place = made;
  return 0;
}

EXPORT void *mmap(void *hint, size_t size, int protection, int flags, int file, off_t offset) {
  void *made = (void *)syscall(SYS_mmap, hint, size, protection, flags, file, offset);
  if (made != MAP_FAILED && (flags & MAP_ANONYMOUS)) NOTE(made, size, MMAP);
  return made;
}

EXPORT void *mmap64(void *hint, size_t size, int protection, int flags, int file, off_t offset) {
  void *made = (void *)syscall(SYS_mmap, hint, size, protection, flags, file, offset);
  if (made != MAP_FAILED && (flags & MAP_ANONYMOUS)) NOTE(made, size, MMAP);
  return made;
}

// --- what Python calls ----------------------------------------------------------------------------------------

typedef struct {
  const char *path;
  uintptr_t inside;
  uintptr_t begin, end;
} Sought;

static int look(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  Sought *sought = data;
  char real[PATH_MAX];
  uintptr_t begin = UINTPTR_MAX, end = 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
    uintptr_t from = info->dlpi_addr + part->p_vaddr, to = from + part->p_memsz;
    begin = from < begin ? from : begin;
    end = to > end ? to : end;
  }
  bool is_it = sought->path ? info->dlpi_name && realpath(info->dlpi_name, real) && !strcmp(real, sought->path)
                            : sought->inside - begin < end - begin;
  if (!is_it || begin >= end) return 0;
  sought->begin = begin, sought->end = end;
  return 1;
}

EXPORT int udogen_watch_version(void) { return UDOGEN_WATCH_VERSION; }

int udogen_watch_code(const char *path, uintptr_t *begin, uintptr_t *end) {
  Sought sought = {.path = path};
  if (!dl_iterate_phdr(look, &sought)) return 0;
  *begin = sought.begin, *end = sought.end;
  return 1;
}

// Whose allocations count: those of the library at this (real) path, which must be loaded; 0 where it is not.
EXPORT int udogen_watch_package(const char *path) {
  Sought sought = {.path = path}, own = {.inside = (uintptr_t)udogen_watch_package};
  if (!dl_iterate_phdr(look, &sought)) return 0;
  dl_iterate_phdr(look, &own);
  our_begin = own.begin, our_end = own.end;
  code_begin = sought.begin, code_end = sought.end;
  return 1;
}

EXPORT void udogen_watch_reset(void) {
  take();
  memset(&counts, 0, sizeof counts);
  udogen_watch_turn = 0;
  give();
}

// Begin; in this thread the package is called from where we are called from, or from deeper.
EXPORT void udogen_watch_arm(void) {
  void *frames[4];
  busy = true;
  backtrace(frames, 4);  // its first call loads the unwinder
  armed_thread = pthread_self();
  armed_limit = UINTPTR_MAX;
  (void)end_of_stack();
  // We are called as graphExecute is, by cffi from Python; arguments take a little more or less of the stack.
  armed_limit = (uintptr_t)__builtin_frame_address(0) + 512;
  busy = false;
  atomic_store(&armed, true);
}

EXPORT void udogen_watch_disarm(void) { atomic_store(&armed, false); }

EXPORT const udogen_site *udogen_watch_sites(void) { return sites; }

EXPORT const udogen_counts *udogen_watch_counts(void) { return &counts; }
