/* A host for one QHPI op package, linked into one program with it: it gives the kernels what HTP gives them.
 *
 *   program REQUEST ANSWER
 *
 * REQUEST names the op and its tensors; ANSWER is a row of records, written as they come, so that a program that
 * dies has reported how far it came.  udogen/runtime/hexagon/wire.py is the other end of both.  All numbers are little-endian.
 *
 *   request  magic, loops, poison, guard, slices, unit, inputs, outputs: u32; op, kernel: text; the tensors, inputs first
 *   text     length: u32; bytes, filled up to a multiple of 4
 *   tensor   element: u32; zero offset: i32; step: f32; constant, rank: u32; dims: u32[8]; size: u32;
 *            of inputs the data, filled up to a multiple of 4
 *   record   kind, length: u32; bytes */
#ifndef UDOGEN_EMULATOR_HEXAGON_HARNESS_H
#define UDOGEN_EMULATOR_HEXAGON_HARNESS_H

#include "HTP/core/qhpi.h"
#include "QnnOpPackage.h"
#include "guards.h"

#define REQUEST_MAGIC 0x314f4455u /* UDO1 */
#define MAX_TENSORS 256
#define MAX_SLICES 64

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

/* request.c */
void wire_read(Request* request);

/* kernels.c: what the package has registered, and which of it fits */
const QHPI_OpInfo_v1* find_op(const char* name);
/* Drops the placeholders of inputs that are left out, where the package does not prepare graphs. */
void drop_left_out(const QHPI_OpInfo_v1* op, Request* request);
const QHPI_Kernel_v1* find_kernel(const QHPI_OpInfo_v1* op, Request* request);

#endif
