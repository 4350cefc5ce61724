__kernel void Sum_kernel(INPUT(kernel_0), OUTPUT(out_0), const int first) {
  const uint i = get_global_id(0);
  STORE(out_0, i, LOAD(kernel_0, i) + (first ? 0 : LOAD(out_0, i)));
}
