__kernel void Picture_kernel(INPUT(x), OUTPUT(y)) {
  const uint i = get_global_id(0);
  STORE4(y, i, LOAD4(x, i) + 1.0f);
}
