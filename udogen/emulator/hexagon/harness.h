/* A host for one QHPI op package, linked into one program with it: it gives the kernels what HTP gives them.
 *
 *   program REQUEST ANSWER
 *
 * REQUEST says which op, with which tensors; ANSWER is a row of records, written as they come, so that a program that
 * dies has told how far it came.  udogen/runtime/hexagon_wire.py is the other end of both.  All numbers are little-endian.
 *
 *   request  magic, loops, slices, unit, inputs, outputs: u32; op, kernel: text; the tensors, inputs first
 *   text     length: u32; bytes, filled up to a multiple of 4
 *   tensor   element: u32; zero offset: i32; step: f32; constant, rank: u32; dims: u32[8]; size: u32;
 *            of inputs the data, filled up to a multiple of 4
 *   record   kind, length: u32; bytes */
#ifndef UDOGEN_EMULATOR_HEXAGON_HARNESS_H
#define UDOGEN_EMULATOR_HEXAGON_HARNESS_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "HTP/core/qhpi.h"
#include "QnnOpPackage.h"

#define REQUEST_MAGIC 0x314f4455u /* UDO1 */
#define MAX_TENSORS 256
#define MAX_SLICES 64

enum {
  SAY_PHASE = 1,    /* text: what begins now */
  SAY_LOG = 2,      /* level: u32; text */
  SAY_FAILED = 3,   /* text: why there is no result; details may have come before */
  SAY_DETAIL = 4,   /* text */
  SAY_KERNEL = 5,   /* resources: u32; function name: text */
  SAY_STATUS = 6,   /* what the kernel returned, where it is no success: u32 */
  SAY_TIME = 7,     /* of one execution, in nanoseconds: u64 */
  SAY_OVERRUN = 8,  /* an output that was written beyond: u32 */
  SAY_OUTPUT = 9,   /* the bytes of one output, in their order */
  SAY_DONE = 10,
  SAY_THROWN = 11   /* text: the type of a C++ exception, as the compiler names it */
};

struct QHPI_Tensor {
  QHPI_Element_Type type;
  QHPI_Standard_Layout layout;
  QHPI_MemLoc placement;
  QHPI_Quant_Parameters quant;
  QHPI_Shape shape;
  uint32_t constant;
  uint32_t size;
  const void* given; /* what an input holds */
  unsigned char* data;
  void* block;
};

/* A node as predicates may look at it: the op itself, or what one of its inputs comes from. */
struct QHPI_Op {
  const char* name;
  uint32_t num_inputs;
  const QHPI_Op* inputs; /* an array: one producer for each input */
  uint32_t num_outputs;
  const QHPI_Tensor* outputs; /* an array */
  uint32_t constant;
};

struct QHPI_RuntimeHandle {
  uint32_t slices;
  uint32_t slice;
  void* sync_block;
};

typedef struct {
  uint32_t loops;
  uint32_t slices;
  uint32_t unit; /* a QHPI_RESOURCE that the kernel must have; 0: any */
  char* op;
  char* kernel; /* of this name; empty: any */
  uint32_t num_inputs;
  uint32_t num_outputs;
  QHPI_Tensor inputs[MAX_TENSORS];
  QHPI_Tensor outputs[MAX_TENSORS];
} Request;

/* wire.c */
void wire_open(const char* request, const char* answer);
void wire_read(Request* request);
void say(uint32_t kind, const void* first, uint32_t first_size, const void* rest, uint32_t rest_size);
void say_text(uint32_t kind, const char* format, ...) __attribute__((format(printf, 2, 3)));
void fail(const char* format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* kernels.c: what the package has registered, and which of it fits */
const QHPI_OpInfo_v1* find_op(const char* name);
const QHPI_Kernel_v1* find_kernel(const QHPI_OpInfo_v1* op, Request* request);

#endif
