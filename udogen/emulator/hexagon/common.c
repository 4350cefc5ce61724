/* What both hosts need; see wire.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "wire.h"

static void log_line(const char* format, QnnLog_Level_t level, uint64_t timestamp, va_list list) {
  char text[768];
  const uint32_t number = (uint32_t)level;
  (void)timestamp;
  vsnprintf(text, sizeof text, format, list);
  wire_record(RECORD_LOG, &number, sizeof number, text, (uint32_t)strlen(text));
}

void give_log(QnnOpPackage_Interface_t* interface) {
  if (interface->interfaceVersion.major != 1) {
    fail("the interface provider of the package returns no interface of version 1");
  }
  if (interface->v1_4.logInitialize != NULL) interface->v1_4.logInitialize(log_line, QNN_LOG_LEVEL_INFO);
}

uint32_t poison;

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
  wire_text_record(RECORD_THROWN, "%s", type != NULL && type->name != NULL ? type->name : "");
  _exit(2);
}
