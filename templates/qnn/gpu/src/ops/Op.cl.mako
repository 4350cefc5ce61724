// The OpenCL kernel of ${op.name}.  Auto-generated once by udogen: it is yours, and your changes are kept.
// INPUT, OUTPUT, LOAD, STORE and the like are in src/utils/GPU/Prelude.cl: LOAD gives a float whether half, float or
// fixed point is stored, so that the same text serves all of them.

__kernel void ${op.entry}(
% for line in op.declared:
    ${line}
% endfor
) {
  // add code here
}
