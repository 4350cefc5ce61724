// The OpenCL kernel of Sum.  This file is yours: udogen wrote it once and keeps your changes.
// INPUT, OUTPUT, LOAD, STORE and the like are in src/utils/GPU/Prelude.cl: LOAD gives a float whether half, float or
// fixed point is stored, so that the same text serves all of them.

__kernel void Sum_kernel(
    OUTPUT(out_0)
) {
  // add code here
}
