// The OpenCL kernel of Sum.  Auto-generated once by udogen: it is yours, and your changes are kept.
// INPUT, OUTPUT, LOAD, STORE and similar macros are in src/Prelude.cl: LOAD returns a float whether half,
// float or fixed point is stored, so the same text works for all of them.

__kernel void Sum_kernel(
    OUTPUT(out_0)
) {
  // add code here
}
