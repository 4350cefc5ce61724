/* QHPI, the C plug-in interface of HTP, declared by udogen's authors from its public description (qhpi_8h).
 * The records are those of SDK 2.47 and later: kernel and op end in four reserved pointers, which must be NULL. */
#ifndef UDOGEN_QNN_HTP_CORE_QHPI_H
#define UDOGEN_QNN_HTP_CORE_QHPI_H

#include <stdint.h>

#define QHPI_MAX_RANK 8
#define QHPI_DO_NOT_TILE 0xffffffffu

#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t QHPI_StatusCode;
enum {
  QHPI_Success = 0,
  QHPI_Unsupported = 1,
  QHPI_ErrorFatal = 2,
  QHPI_RegistrationWarning = 3,
  QHPI_RegistrationError = 4
};

typedef uint32_t QHPI_Element_Type;
enum {
  QHPI_UNKNOWN = 0,
  QHPI_QUInt8 = 1,
  QHPI_QUInt16 = 2,
  QHPI_QInt16 = 3,
  QHPI_Float32 = 4,
  QHPI_Int32 = 5,
  QHPI_QInt32 = 6,
  QHPI_QInt8 = 7,
  QHPI_Float16 = 8,
  QHPI_Int64 = 9,
  QHPI_Any_Element_Type = 240,
  QHPI_PrepareError = 241
};

typedef uint32_t QHPI_Standard_Layout;
enum {
  QHPI_Layout_Any = 0,
  QHPI_Layout_ShapeOnly = 1,
  QHPI_Layout_Flat4 = 2,
  QHPI_Layout_Flat5 = 3,
  QHPI_Layout_Flat6 = 4,
  QHPI_Layout_Singular = 5,
  QHPI_Layout_NCHW = 6,
  QHPI_Layout_Depth32 = 7,
  QHPI_Layout_Weights8x4 = 8,
  QHPI_Layout_Crouton_8 = 9,
  QHPI_Layout_Crouton_16 = 10,
  QHPI_Layout_Crouton_32 = 11,
  QHPI_Layout_Crouton4x1 = 12,
  QHPI_Layout_Crouton2x2 = 13,
  QHPI_Layout_WideCrouton_8 = 14,
  QHPI_Layout_WideCrouton_32 = 15,
  QHPI_Layout_WideCrouton2x2 = 16
};

typedef uint32_t QHPI_MemLoc;
enum { QHPI_MemLoc_DDR_Only = 0, QHPI_MemLoc_TCM_Only = 1, QHPI_MemLoc_DDR_OR_TCM = 2 };

typedef uint32_t QHPI_Storage;
enum { QHPI_Storage_Direct = 0, QHPI_Storage_Indirect = 1, QHPI_Storage_Direct_OR_Indirect = 2 };

typedef uint32_t QHPI_RESOURCE;
enum { QHPI_RESOURCE_MAIN = 1, QHPI_RESOURCE_HVX = 2, QHPI_RESOURCE_HMX = 4 };

typedef struct {
  uint32_t rank;
  uint32_t dims[QHPI_MAX_RANK];
} QHPI_Shape;

/* real value = stepsize * (stored value - zero_offset) */
typedef struct {
  int32_t zero_offset;
  float stepsize;
} QHPI_Quant_Parameters;

typedef struct {
  QHPI_Element_Type type;
  QHPI_Quant_Parameters quant_parameters;
  QHPI_Shape shape;
} QHPI_OutputDef;

typedef struct QHPI_Op QHPI_Op;
typedef struct QHPI_Tensor QHPI_Tensor;
typedef struct QHPI_RuntimeHandle QHPI_RuntimeHandle;

typedef struct {
  const QHPI_Op* op;
  uint32_t output_number;
} QHPI_OpRef;

typedef struct {
  uint32_t element_type;
  uint32_t layout;
  unsigned char storage;
  unsigned char mem_placement;
} QHPI_Tensor_Signature_v1;

typedef uint32_t (*QHPI_Plugin_Function)(QHPI_RuntimeHandle* handle, uint32_t num_outputs, QHPI_Tensor** outputs,
                                         uint32_t num_inputs, const QHPI_Tensor* const* inputs);
typedef uint32_t (*QHPI_Precompute_Function)(QHPI_RuntimeHandle* handle, void* data, uint32_t num_outputs,
                                             QHPI_Tensor** outputs, uint32_t num_inputs,
                                             const QHPI_Tensor* const* inputs);
typedef uint32_t (*QHPI_Plugin_Precomputed_Function)(QHPI_RuntimeHandle* handle, const void* precomputed_data);
typedef uint32_t (*QHPI_Kernel_Predicate)(const QHPI_Op* op, const uint32_t num_inputs,
                                          const QHPI_Tensor* const* inputs);
typedef float (*QHPI_Cost_Function)(const uint32_t num_inputs, const QHPI_Tensor* const* inputs);
typedef const QHPI_Op* (*QHPI_RewriteOpFunc)(const QHPI_Op* op);
typedef QHPI_Shape (*QHPI_TileShapeRequired)(const QHPI_Op* op);
typedef QHPI_Shape (*QHPI_TileShapeLegalized)(const QHPI_Op* op, const QHPI_Shape* shape);
typedef const QHPI_Op* (*QHPI_BuildTileOfOp)(const QHPI_Op* op, const QHPI_Shape* start, const QHPI_Shape* extent);

typedef struct {
  const char* function_name;
  QHPI_Plugin_Function function;
  unsigned char resources;
  unsigned char source_destructive : 1;
  unsigned char multithreaded : 1;
  unsigned char variable_inputs : 1;
  unsigned char variable_outputs : 1;
  uint32_t min_inputs;
  QHPI_Tensor_Signature_v1* input_signature;
  uint32_t min_outputs;
  QHPI_Tensor_Signature_v1* output_signature;
  QHPI_Cost_Function cost_function;
  uint32_t sync_block_size;
  uint32_t precomputed_data_size;
  QHPI_Precompute_Function do_precomputation_function;
  QHPI_Plugin_Precomputed_Function function_with_precomputed_data;
  QHPI_Kernel_Predicate predicate;
  void* reserved[4];
} QHPI_Kernel_v1;

typedef struct {
  const char* name;
  uint32_t num_kernels;
  QHPI_Kernel_v1* kernels;
  QHPI_RewriteOpFunc early_rewrite;
  QHPI_TileShapeRequired shape_required;
  QHPI_TileShapeLegalized shape_legalized;
  unsigned tile_output;
  QHPI_BuildTileOfOp build_tile;
  QHPI_RewriteOpFunc late_rewrite;
  void* reserved[4];
} QHPI_OpInfo_v1;

QHPI_StatusCode qhpi_register_ops_v1(uint32_t num_ops, QHPI_OpInfo_v1* operators, const char* package);

/* What a kernel may ask while it runs. */
QHPI_Shape qhpi_tensor_shape(const QHPI_Tensor* tensor);
QHPI_Shape qhpi_tensor_padding(const QHPI_Tensor* tensor);
QHPI_Shape qhpi_tensor_padded_shape(const QHPI_Tensor* tensor);
QHPI_Element_Type qhpi_tensor_type(const QHPI_Tensor* tensor);
QHPI_Standard_Layout qhpi_tensor_layout(const QHPI_Tensor* tensor);
QHPI_MemLoc qhpi_tensor_placement(const QHPI_Tensor* tensor);
QHPI_Quant_Parameters qhpi_tensor_quant_parameters(const QHPI_Tensor* tensor);
void* qhpi_tensor_raw_data(const QHPI_Tensor* tensor);
void** qhpi_tensor_block_table(const QHPI_Tensor* tensor);
uint32_t qhpi_tensor_block_table_length(const QHPI_Tensor* tensor);
QHPI_Shape qhpi_tensor_block_shape(const QHPI_Tensor* tensor);
uint32_t qhpi_num_slices(QHPI_RuntimeHandle* handle);
uint32_t qhpi_slice_number(QHPI_RuntimeHandle* handle);
void* qhpi_sync_block(QHPI_RuntimeHandle* handle);
uint32_t qhpi_element_type_size(QHPI_Element_Type type);

/* What rewrites and tiling may do while a graph is prepared.  Left out: qhpi_option_bool and qhpi_vtcm_size_in_bytes,
 * which are described, but exported by no runtime from 2.47 to 2.51. */
const char* qhpi_op_name(const QHPI_Op* op);
uint32_t qhpi_op_num_inputs(const QHPI_Op* op);
QHPI_OpRef qhpi_op_input(const QHPI_Op* op, uint32_t index);
uint32_t qhpi_op_num_outputs(const QHPI_Op* op);
QHPI_OutputDef qhpi_op_output(const QHPI_Op* op, uint32_t position);
uint32_t qhpi_op_is_constant(const QHPI_Op* op);
const void* qhpi_op_constant_data(const QHPI_Op* op);
const QHPI_Op* qhpi_op_create_constant(const QHPI_Op* root, const QHPI_OutputDef* output, uint32_t size,
                                       const void* data);
QHPI_OpRef qhpi_op_create_shape(const QHPI_Op* root, const QHPI_Shape* shape);
const QHPI_Op* qhpi_op_create(const QHPI_Op* root, const char* name, uint32_t num_inputs, const QHPI_OpRef* inputs,
                              uint32_t num_outputs, const QHPI_OutputDef* outputs);
QHPI_StatusCode qhpi_option_int(const QHPI_Op* op, const char* name, int32_t* value);
uint32_t qhpi_op_num_uses(const QHPI_Op* op);
uint32_t qhpi_op_producer_for(const QHPI_Op* op, const char* name);
const QHPI_Op* qhpi_op_create_multi_output(uint32_t num_inputs, const QHPI_OpRef* inputs);
QHPI_OpRef qhpi_op_slice(QHPI_OpRef ref, const QHPI_Shape* start, const QHPI_Shape* extent);
QHPI_OpRef qhpi_op_concat(uint32_t axis, uint32_t num_inputs, const QHPI_OpRef* inputs);
uint32_t qhpi_op_is_error(const QHPI_Op* op);
const char* qhpi_op_error_description(const QHPI_Op* op);
uint32_t qhpi_output_is_error(const QHPI_OutputDef* output);
const char* qhpi_output_error_description(const QHPI_Op* root, const QHPI_OutputDef* output);
const QHPI_Op* qhpi_op_create_error(const QHPI_Op* root, const char* description);

#ifdef __cplusplus
}
#endif
#endif
