// The OpenCL kernel of Combine.  Auto-generated once by udogen: it is yours, and your changes are kept.
// INPUT, OUTPUT, LOAD, STORE and similar macros are in src/Prelude.cl: LOAD returns a float whether half,
// float or fixed point is stored, so the same text works for all of them.

__kernel void Combine_kernel(
    INPUT(x),
    INPUT(bias),
    OUTPUT(y),
    const float scale,
    const int offset,
    const int flag,
    const uint mode,
    INPUT(weights)
) {
  // add code here
}
