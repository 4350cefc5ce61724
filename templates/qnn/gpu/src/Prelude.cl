// Precedes every .cl file of this package: how a kernel names, declares, reads and writes its tensors.
// A tensor has its name in the op's config; macros before this text define for each tensor how it is stored.
//
//   __kernel void f(INPUT(x), OUTPUT(y), const float alpha)
//   TYPE(x)             what one element is stored as: half, float, uchar, …
//   LOAD(x, i)          element i: a float, also where half or fixed point is stored; integers stay integers
//   STORE(y, i, v)      writes it: rounds and saturates fixed point
//   LOAD4(x, i), STORE4(y, i, v)    four elements at once, the i-th four of the tensor; images have no STORE
//   HAS(x)              0 for an omitted optional tensor;  IS_IMAGE(x): 1 if the tensor is an image
//   SCALE(x), OFFSET(x) of fixed point: real = SCALE * (stored + OFFSET)
#define INPUT(x) udo_input_##x x
#define OUTPUT(x) udo_output_##x x
#define TYPE(x) udo_type_##x
#define LOAD(x, i) udo_load_##x(x, i)
#define STORE(x, i, v) udo_store_##x(x, i, v)
#define LOAD4(x, i) udo_load4_##x(x, i)
#define STORE4(x, i, v) udo_store4_##x(x, i, v)
#define HAS(x) udo_has_##x
#define IS_IMAGE(x) udo_image_##x
#define SCALE(x) udo_scale_##x
#define OFFSET(x) udo_offset_##x

inline float udo_component(float4 pixel, int which) {
  return which == 0 ? pixel.x : which == 1 ? pixel.y : which == 2 ? pixel.z : pixel.w;
}
