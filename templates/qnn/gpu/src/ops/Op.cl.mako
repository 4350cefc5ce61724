// The OpenCL kernel of ${op.name}.  Auto-generated once by udogen: it is yours, and your changes are kept.
// INPUT, OUTPUT, LOAD, STORE and similar macros are in src/Prelude.cl: LOAD returns a float whether half,
// float or fixed point is stored, so the same text works for all of them.

__kernel void ${op.entry}(
% for line in op.declared:
    ${line}
% endfor
) {
  // add code here
}
