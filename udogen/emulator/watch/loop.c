// Executes a graph many times without a step back into Python, whose one lock would order what shall collide.
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

typedef uint64_t (*Execute)(void *, const void *, uint32_t, void *, uint32_t, void *, void *);

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

// Waits until `parties` threads are here; then all run, so often and so long at least.
__attribute__((visibility("default"))) uint64_t udogen_loop(Execute execute, void *graph, const void *inputs,
                                                            uint32_t input_count, void *outputs, uint32_t output_count,
                                                            uint64_t times, double seconds, _Atomic int *here,
                                                            int parties) {
  uint64_t code = 0;
  atomic_fetch_add(here, 1);
  while (atomic_load(here) < parties) continue;
  const double end = now() + seconds;
  for (uint64_t turn = 0; code == 0 && (turn < times || now() < end); turn++)
    code = execute(graph, inputs, input_count, outputs, output_count, 0, 0);
  return code;
}
