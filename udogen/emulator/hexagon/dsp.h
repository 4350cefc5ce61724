/* A host for one op package of the DSP backend (V65, V66), linked into one program with it: it plays the DSP.
 *
 * REQUEST, all numbers little-endian; udogen/runtime/hexagon/dsp_wire.py is the other end of it:
 *   request  magic, loops, poison, guard, bytes of VTCM, inputs, outputs, params: u32; package, op: text; the tensors,
 *            inputs first; the params
 *   text     length: u32; bytes, filled up to a multiple of 4
 *   tensor   type of UDO (0: left out), quantized: u32; lowest, highest: f32; rank: u32; dims: u32[8]; size: u32;
 *            of inputs and params the data, filled up to a multiple of 4
 *   param    0 scalar, 1 text, 2 tensor: u32; name: text; then type, bits: u32, or a text, or a tensor */
#ifndef UDOGEN_EMULATOR_HEXAGON_DSP_H
#define UDOGEN_EMULATOR_HEXAGON_DSP_H

#include "DSP/QnnDspOpPackage.h"
#include "guards.h"

#define DSP_MAGIC 0x324f4455u /* UDO2 */
#define MAX_TENSORS 64
#define MAX_PARAMS 64
#define MAX_WORKERS 64
#define UNSET_SIZE UINT32_MAX

typedef struct {
  Udo_TensorParam_t raw; /* what the op is shown */
  uint32_t max[MAX_AXES];
  uint32_t current[MAX_AXES];
  uint32_t size;     /* bytes that an output has at most */
  uint32_t set_size; /* the size that the op has set */
  const void* given; /* what an input holds */
} Tensor;

typedef struct {
  uint32_t loops;
  uint32_t vtcm;
  char* package;
  char* op;
  uint32_t num_inputs;
  uint32_t num_outputs;
  uint32_t num_params;
  Tensor inputs[MAX_TENSORS];
  Tensor outputs[MAX_TENSORS];
  Tensor constants[MAX_PARAMS]; /* of the params that are tensors */
  Udo_Param_t params[MAX_PARAMS];
} DspRequest;

/* dsp_request.c */
void dsp_read(DspRequest* request);
void dsp_forget_params(DspRequest* request); /* as the DSP may do once the factory is made */

/* dsp_functions.c */
Udo_DspGlobalInfrastructure_t* dsp_functions(DspRequest* request);
void* dsp_operation(void); /* passed to the functions to identify the operation */
extern int dsp_executes;   /* while the heap must not be used */
uint32_t dsp_heap_uses(void);
uint32_t dsp_blocks_left(void);
uint32_t dsp_most_workers(void);

#endif
