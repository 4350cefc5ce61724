/* What the hosts of HTP and of DSP packages share: the files to and from udogen, marks for counting.
 *
 *   program REQUEST ANSWER
 *
 * ANSWER is a row of records, written as they come, so that a program that dies has reported how far it came.
 *   record   kind, length: u32; bytes */
#ifndef UDOGEN_EMULATOR_HEXAGON_WIRE_H
#define UDOGEN_EMULATOR_HEXAGON_WIRE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "QnnOpPackage.h"

#define MAX_AXES 8

enum {
  RECORD_PHASE = 1,    /* text: what begins now */
  RECORD_LOG = 2,      /* level: u32; text */
  RECORD_FAILED = 3,   /* text: why there is no result; details may have come before */
  RECORD_DETAIL = 4,   /* text */
  RECORD_KERNEL = 5,   /* resources, or worker threads: u32; function name: text */
  RECORD_STATUS = 6,   /* what the kernel returned, where it is not success: u32 */
  RECORD_TIME = 7,     /* of one execution, in nanoseconds: u64 */
  RECORD_STRAY = 8,    /* memory that is not the kernel's: whose, number, where, how, offset, count, size: u32[7] */
  RECORD_OUTPUT = 9,   /* the bytes of one output, in their order */
  RECORD_DONE = 10,
  RECORD_THROWN = 11,  /* text: the type of a C++ exception, as the compiler names it */
  RECORD_SHAPE = 12    /* of the output that comes next, where an op may choose it: its dimensions: u32[] */
};

/* wire.c: every size is checked; an error ends the program */
void wire_open(const char* request, const char* result);
const void* wire_take(size_t size); /* filled up to a multiple of 4 */
uint32_t wire_number(void);
char* wire_text(void);
void wire_record(uint32_t kind, const void* first, uint32_t first_size, const void* rest, uint32_t rest_size);
void wire_text_record(uint32_t kind, const char* format, ...) __attribute__((format(printf, 2, 3)));
void fail(const char* format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* common.c */
extern uint32_t poison; /* the byte that the memory of tensors is filled with; 0 where nothing asks for another */
void give_log(QnnOpPackage_Interface_t* interface); /* of the package, whose lines become records */
uint64_t nanoseconds(void);
/* Where packets begin and end to count; the plug-in knows their addresses. */
void udogen_count_begin(void);
void udogen_count_end(void);

#endif
