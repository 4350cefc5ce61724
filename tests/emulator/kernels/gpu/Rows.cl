// A work group sums a row in local memory.
__kernel void sums(INPUT(x), __global float* total, __local float* part, const uint length) {
  const uint row = get_group_id(0), lane = get_local_id(0), lanes = get_local_size(0);
  float sum = 0.0f;
  for (uint i = lane; i < length; i += lanes) sum += fabs(LOAD(x, row * length + i));
  part[lane] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (lane != 0) return;
  for (uint i = 1; i < lanes; ++i) sum += part[i];
  total[row] = sum;
}

__kernel void divided(INPUT(x), __global const float* total, OUTPUT(y), const uint length) {
  const uint column = get_global_id(0), row = get_global_id(1);
  STORE(y, row * length + column, LOAD(x, row * length + column) / total[row]);
}
