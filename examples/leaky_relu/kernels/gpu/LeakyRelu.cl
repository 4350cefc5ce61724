// LeakyRelu on floats, halves or fixed point: four elements for each work item, and one by one at the end.
__kernel void LeakyRelu_kernel(INPUT(input), OUTPUT(output), const float alpha, const uint size) {
  const uint i = get_global_id(0);
  if (4 * i + 4 <= size) {
    const float4 x = LOAD4(input, i);
    STORE4(output, i, select(alpha * x, x, x > 0.0f));
  } else {
    for (uint k = 4 * i; k < size; ++k) {
      const float x = LOAD(input, k);
      STORE(output, k, x > 0.0f ? x : alpha * x);
    }
  }
}
