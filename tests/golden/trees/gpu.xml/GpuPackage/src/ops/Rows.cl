// The OpenCL kernel of Rows.  Auto-generated once by udogen: it is yours, and your changes are kept.
// INPUT, OUTPUT, LOAD, STORE and the like are in src/utils/GPU/Prelude.cl: LOAD gives a float whether half, float or
// fixed point is stored, so that the same text serves all of them.

__kernel void Rows_kernel(
    INPUT(x),
    OUTPUT(y)
) {
  // add code here
}
