/* Memory of tensors, with guards around it: bytes that must not change, and inaccessible pages.
 *
 * The bytes of a guard depend on the tensor and on the place.  Those of outputs are between 0x21 and 0x3e in the first
 * execution, between 0xc1 and 0xde from the second on; all others are between 0x41 and 0xbe, without 0x7f and 0x80, and
 * stay.  So what a kernel copies from guard to guard, its minimum and maximum, and what saturates, is seen at once; any
 * other byte may be the one that was there in one execution, and is not in the next.
 * udogen/runtime/worker/op_graph.py and udogen/emulator/core/guards.hpp have the same pattern. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guards.h"

#define ALIGNMENT 128
#define ZONE 2048   /* bytes of a guard, at most */
#define MOST 640    /* tensors */
#define NEAR 0x100000u

enum { PAST = 0, BEFORE = 1, INTO = 2 };
enum { WROTE = 0, READ = 1 };

typedef struct {
  uint32_t kind;
  uint32_t number;
  unsigned char* data;
  size_t size;
  size_t before; /* bytes of the guards */
  size_t behind;
  const unsigned char* content; /* what must stay in it; NULL: it may be written */
  unsigned char* changed;       /* for each byte of the guard before and of the one behind, whether it was written */
  unsigned char* inside;        /* the pages between the inaccessible ones */
  size_t inside_size;
} Guarded;

uint32_t guard_side;

static Guarded all[MOST];
static size_t number_of_all;
static uint32_t later; /* 1 from the second execution on */
static unsigned char* open_page; /* one that was closed, and is open for reading since something reached it */

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }
static size_t round_up(size_t size, size_t unit) { return (size + unit - 1) / unit * unit; }

static uint32_t mixed(uint32_t value) {
  value *= 0x9e3779b1u;
  value ^= value >> 15;
  value *= 0x85ebca77u;
  return value >> 13;
}

/* The byte at this distance from the end of the data (from its beginning, if it is negative). */
static unsigned char pattern(const Guarded* of, ptrdiff_t at) {
  if (of->kind == GUARD_OUTPUT) {
    return (unsigned char)((later ? 0xc1 : 0x21) + (mixed((uint32_t)at + later) + 17 * of->number) % 30);
  }
  const uint32_t value = (mixed((uint32_t)at) + 37 * of->number + 11 * of->kind) % 124;
  return (unsigned char)(value < 62 ? 0x41 + value : 0x81 + value - 62);
}

static void fill(Guarded* one) {
  for (size_t i = 1; i <= one->before; ++i) one->data[-(ptrdiff_t)i] = pattern(one, -(ptrdiff_t)i);
  for (size_t i = 0; i < one->behind; ++i) one->data[one->size + i] = pattern(one, (ptrdiff_t)i);
}

static void protect(void* begin, size_t size, int how) {
  if (size > 0 && mprotect(begin, size, how) != 0) fail("memory cannot be protected");
}

unsigned char* guarded_memory(uint32_t kind, uint32_t number, size_t size, size_t shift) {
  const size_t page = page_size();
  const size_t whole = round_up(size + shift, ALIGNMENT);
  const size_t inside = round_up(whole + (guard_side == 0 ? 2 * ZONE : ZONE), page);
  Guarded* const one = &all[number_of_all];
  if (number_of_all == MOST) fail("there are more than %d tensors", MOST);
  unsigned char* mapping = mmap(NULL, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) fail("out of memory for a tensor of %zu bytes", size);
  protect(mapping + page, inside, PROT_READ | PROT_WRITE);
  *one = (Guarded){kind, number, NULL, size, ZONE, ZONE, NULL, NULL, mapping + page, inside};
  if (guard_side == GUARD_AT_BEGIN) {
    one->data = one->inside + shift;
    one->before = shift;
  } else {
    one->behind = whole - size - shift + (guard_side == GUARD_AT_END ? 0 : ZONE);
    one->data = one->inside + inside - one->behind - size;
  }
  one->changed = calloc(one->before + one->behind + 1, 1);
  if (one->changed == NULL) fail("out of memory");
  memset(one->data, (int)poison, size);
  ++number_of_all;
  return one->data;
}

static Guarded* guarded_at(const void* data) {
  for (size_t i = 0; i < number_of_all; ++i) {
    if (all[i].data == data) return &all[i];
  }
  fail("this memory has no guards");
}

void guard_content(const void* data, const void* content) { guarded_at(data)->content = content; }

void guard_copy(const void* data) {
  Guarded* const one = guarded_at(data);
  unsigned char* made = malloc(one->size + 1);
  if (made == NULL) fail("out of memory");
  one->content = memcpy(made, data, one->size);
}

void guard_as_output(const void* data, uint32_t number) {
  Guarded* const one = guarded_at(data);
  one->kind = GUARD_OUTPUT;
  one->number = number;
  one->content = NULL;
}

void guards_open(uint32_t execution) {
  later = execution > 0;
  for (size_t i = 0; i < number_of_all; ++i) {
    Guarded* const one = &all[i];
    if (guard_side != 0) protect(one->inside, one->inside_size, PROT_READ | PROT_WRITE);
    if (execution < 2) fill(one);
  }
}

void guards_close(void) {
  for (size_t i = 0; guard_side != 0 && i < number_of_all; ++i) {
    if (all[i].content != NULL) protect(all[i].inside, all[i].inside_size, PROT_READ);
  }
}

void guards_compare_bytes(void) {
  for (size_t k = 0; k < number_of_all; ++k) {
    Guarded* const one = &all[k];
    for (size_t i = 1; i <= one->before; ++i) {
      one->changed[i - 1] |= one->data[-(ptrdiff_t)i] != pattern(one, -(ptrdiff_t)i);
    }
    for (size_t i = 0; i < one->behind; ++i) {
      one->changed[one->before + i] |= one->data[one->size + i] != pattern(one, (ptrdiff_t)i);
    }
  }
}

void guards_compare(void) {
  guards_compare_bytes();
  for (size_t k = 0; k < number_of_all; ++k) {
    const Guarded* const one = &all[k];
    if (one->content == NULL || memcmp(one->data, one->content, one->size) == 0) continue;
    uint32_t first = UINT32_MAX, count = 0;
    for (size_t i = 0; i < one->size; ++i) {
      if (one->data[i] == one->content[i]) continue;
      if (count++ == 0) first = (uint32_t)i;
    }
    record_stray(one->kind, one->number, INTO, WROTE, first, count, (uint32_t)one->size);
  }
}

void record_stray(uint32_t kind, uint32_t number, uint32_t where, uint32_t how, uint32_t offset, uint32_t count,
               uint32_t size) {
  const uint32_t row[7] = {kind, number, where, how, offset, count, size};
  wire_record(RECORD_STRAY, row, sizeof row, NULL, 0);
}

void guards_say(void) {
  const size_t page = page_size();
  for (size_t k = 0; k < number_of_all; ++k) {
    const Guarded* const one = &all[k];
    /* A reader of the results may read beyond them: memcpy() of Hexagon does. */
    protect(one->inside - page, one->inside_size + 2 * page, PROT_READ | PROT_WRITE);
    uint32_t farthest = 0, count = 0;
    for (size_t i = 0; i < one->before; ++i) {
      if (one->changed[i]) ++count, farthest = (uint32_t)i + 1;
    }
    if (count > 0) record_stray(one->kind, one->number, BEFORE, WROTE, farthest, count, (uint32_t)one->size);
    uint32_t nearest = UINT32_MAX;
    count = 0;
    for (size_t i = 0; i < one->behind; ++i) {
      if (!one->changed[one->before + i]) continue;
      if (count++ == 0) nearest = (uint32_t)(one->size + i);
    }
    if (count > 0) record_stray(one->kind, one->number, PAST, WROTE, nearest, count, (uint32_t)one->size);
  }
}

/* --- inaccessible pages ---------------------------------------------------------------------------------- */

static size_t distance(const Guarded* one, const unsigned char* address) {
  if (address < one->data) return (size_t)(one->data - address);
  return address >= one->data + one->size ? (size_t)(address - (one->data + one->size)) : 0;
}

static void record_access(const Guarded* one, const unsigned char* address, uint32_t how) {
  const uint32_t size = (uint32_t)one->size;
  if (address < one->data) {
    record_stray(one->kind, one->number, BEFORE, how, (uint32_t)(one->data - address), 0, size);
  } else {
    const uint32_t at = (uint32_t)(address - one->data);
    record_stray(one->kind, one->number, at < size ? INTO : PAST, how, at, 0, size);
  }
}

/* A closed page is opened for reading, and the instruction tried again: if it comes back, it writes. */
static void reached(int signal_number, siginfo_t* info, void* context) {
  unsigned char* const address = info->si_addr;
  const size_t page = page_size();
  const Guarded* near = NULL;
  (void)context;
  for (size_t i = 0; i < number_of_all; ++i) {
    const Guarded* const one = &all[i];
    if (address < one->inside - page || address >= one->inside + one->inside_size + page) continue;
    if (near == NULL || distance(one, address) < distance(near, address)) near = one;
  }
  if (near == NULL) {
    signal(signal_number, SIG_DFL);
    return; /* the instruction is tried again, and ends the program */
  }
  unsigned char* const begin = (unsigned char*)((uintptr_t)address / page * page);
  const int is_inside = address >= near->inside && address < near->inside + near->inside_size;
  if (is_inside || begin == open_page) {
    record_access(near, address, WROTE);
    _exit(2);
  }
  record_access(near, address, READ);
  open_page = begin;
  if (mprotect(begin, page, PROT_READ) != 0) _exit(2);
}

void guards_watch(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = reached;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, NULL);
}
