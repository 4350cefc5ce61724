// Softmax along one axis: a work item walks one line of the tensor, whose elements are `inner` apart.
__kernel void Softmax_kernel(INPUT(input), OUTPUT(output), const uint extent, const uint inner) {
  const uint line = get_global_id(0);
  const uint first = line / inner * extent * inner + line % inner;
  float largest = LOAD(input, first);
  for (uint i = 1; i < extent; ++i) largest = fmax(largest, LOAD(input, first + i * inner));
  float sum = 0.0f;
  for (uint i = 0; i < extent; ++i) sum += exp(LOAD(input, first + i * inner) - largest);
  for (uint i = 0; i < extent; ++i) {
    const uint at = first + i * inner;
    STORE(output, at, exp(LOAD(input, at) - largest) / sum);
  }
}
