// Softmax along the last axis: a work item walks one line of `extent` elements.
__kernel void Softmax_kernel(INPUT(Placeholder), OUTPUT(Output), const uint extent) {
  const uint first = get_global_id(0) * extent;
  float largest = LOAD(Placeholder, first);
  for (uint i = 1; i < extent; ++i) largest = fmax(largest, LOAD(Placeholder, first + i));
  float sum = 0.0f;
  for (uint i = 0; i < extent; ++i) sum += exp(LOAD(Placeholder, first + i) - largest);
  for (uint i = 0; i < extent; ++i) STORE(Output, first + i, exp(LOAD(Placeholder, first + i) - largest) / sum);
}
