// The OpenCL kernel of Combine.  This file is yours: udogen wrote it once and keeps your changes.
// INPUT, OUTPUT, LOAD, STORE and the like are in src/utils/GPU/Prelude.cl: LOAD gives a float whether half, float or
// fixed point is stored, so that the same text serves all of them.

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
