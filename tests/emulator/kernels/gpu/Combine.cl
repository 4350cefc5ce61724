__kernel void Combine_kernel(INPUT(x), INPUT(bias), OUTPUT(y), const float scale, const int offset, const int flag,
                             const uint mode, INPUT(weights), const uint count, const int extra) {
  const uint i = get_global_id(0);
  float v = LOAD(x, i);
  if (flag) v = scale * v + offset;
#if HAS(bias)
  v += LOAD(bias, i);
#endif
  v = v * LOAD(weights, i % count) + extra;
  STORE(y, i, mode == 1 ? -v : v);
}
