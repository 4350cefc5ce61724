/* Memory of tensors with guards around it; see guards.c. */
#ifndef UDOGEN_EMULATOR_HEXAGON_GUARDS_H
#define UDOGEN_EMULATOR_HEXAGON_GUARDS_H

#include "wire.h"

enum { GUARD_INPUT = 0, GUARD_OUTPUT = 1, GUARD_PARAM = 2, GUARD_MEMORY = 3 };
/* GUARD_MEMORY is not a tensor: its number is one of these. */
enum { MEMORY_VTCM = 0, MEMORY_PRECOMPUTED = 1, MEMORY_SYNC_BLOCK = 2 };
enum { GUARD_AT_END = 1, GUARD_AT_BEGIN = 2 };

/* 0: guards of bytes around each tensor, and inaccessible pages behind them.  GUARD_AT_END, GUARD_AT_BEGIN: the
 * pages are as near as the alignment to 128 bytes allows, and what an op may only read cannot be written. */
extern uint32_t guard_side;

/* Filled with `poison`, and `shift` bytes behind a multiple of 128. */
unsigned char* guarded_memory(uint32_t kind, uint32_t number, size_t size, size_t shift);
void guard_content(const void* data, const void* content); /* what must stay in it; NULL: it may be written */
void guard_copy(const void* data);                         /* what is in it now must stay */
void guard_as_output(const void* data, uint32_t number);   /* an input that is an output too */
void guards_watch(void);                                   /* reports accesses to a closed page */
void guards_open(uint32_t execution);                      /* before the inputs are filled */
void guards_close(void);                                   /* before the kernel is called */
void guards_compare(void);                                 /* after it has returned */
void guards_compare_bytes(void);                           /* the guards alone, where inputs are not filled yet */
void guards_say(void);                                     /* at the end: what was written over all executions; opens all pages */
void record_stray(uint32_t kind, uint32_t number, uint32_t where, uint32_t how, uint32_t offset, uint32_t count,
               uint32_t size);

#endif
