/* What both hosts need; see wire.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "wire.h"

#define GUARD 128
#define FILL 0xa5

static void log_line(const char* format, QnnLog_Level_t level, uint64_t timestamp, va_list list) {
  char text[768];
  const uint32_t number = (uint32_t)level;
  (void)timestamp;
  vsnprintf(text, sizeof text, format, list);
  say(SAY_LOG, &number, sizeof number, text, (uint32_t)strlen(text));
}

void give_log(QnnOpPackage_Interface_t* interface) {
  if (interface->interfaceVersion.major != 1) {
    fail("the interface provider of the package gives no interface of version 1");
  }
  if (interface->v1_4.logInitialize != NULL) interface->v1_4.logInitialize(log_line, QNN_LOG_LEVEL_INFO);
}

uint32_t poison;

unsigned char* guarded_room(size_t size) {
  unsigned char* room = NULL;
  if (posix_memalign((void**)&room, GUARD, GUARD + size + GUARD) != 0) {
    fail("there is no memory for a tensor of %zu bytes", size);
  }
  memset(room, FILL, GUARD);
  memset(room + GUARD, (int)poison, size);
  memset(room + GUARD + size, FILL, GUARD);
  return room + GUARD;
}

int is_guarded(const unsigned char* room, size_t size) {
  for (size_t i = 0; i < GUARD; ++i) {
    if (room[size + i] != FILL || room[-1 - (ptrdiff_t)i] != FILL) return 0;
  }
  return 1;
}

uint64_t nanoseconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

__attribute__((noinline, used)) void udogen_count_begin(void) { __asm__ volatile("" ::: "memory"); }
__attribute__((noinline, used)) void udogen_count_end(void) { __asm__ volatile("" ::: "memory"); }

/* A C++ exception would end the program without a word: QEMU cannot unwind the stack of a Hexagon.  The linker sends
 * every throw here (--wrap); of the type's record we read the name. */
struct CxxType {
  const void* functions;
  const char* name;
};

__attribute__((noreturn)) void __wrap___cxa_throw(void* object, const struct CxxType* type, void (*destroy)(void*)) {
  (void)object, (void)destroy;
  say_text(SAY_THROWN, "%s", type != NULL && type->name != NULL ? type->name : "");
  _exit(2);
}
