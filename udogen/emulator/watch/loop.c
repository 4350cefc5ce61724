// Executes a graph many times without a step back into Python, whose one lock would order what shall collide.
#include <stdatomic.h>
#include <stdint.h>

typedef uint64_t (*Execute)(void *, const void *, uint32_t, void *, uint32_t, void *, void *);

// Waits until `parties` threads are here; then all run.
__attribute__((visibility("default"))) uint64_t udogen_loop(Execute execute, void *graph, const void *inputs,
                                                            uint32_t input_count, void *outputs, uint32_t output_count,
                                                            uint64_t times, _Atomic int *here, int parties) {
  uint64_t code = 0;
  atomic_fetch_add(here, 1);
  while (atomic_load(here) < parties) continue;
  for (uint64_t turn = 0; turn < times && code == 0; turn++)
    code = execute(graph, inputs, input_count, outputs, output_count, 0, 0);
  return code;
}
