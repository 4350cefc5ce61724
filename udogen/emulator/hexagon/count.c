/* A plug-in of QEMU that counts the packets executed between two addresses, block by block.
 *
 *   qemu-hexagon -plugin count.so,begin=0x…,end=0x…,out=FILE program
 *
 * Each thread counts for itself between its own passes of `begin` and `end`.  FILE gets a line for each block of code
 * that was executed: its address and the packets executed in it.  The declarations are written from the public
 * description of QEMU's plug-in interface; API is its version, which QEMU compares. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef API
#define API 1 /* QEMU up to 8.2 */
#endif

struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef uint64_t Id;
enum { NO_REGISTERS = 0 };

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* block);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb* block);
void qemu_plugin_register_vcpu_tb_trans_cb(Id id, void (*seen)(Id id, struct qemu_plugin_tb* block));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb* block, void (*run)(unsigned int cpu, void* data),
                                          int flags, void* data);
void qemu_plugin_register_atexit_cb(Id id, void (*ended)(Id id, void* data), void* data);

#define EXPORT __attribute__((visibility("default")))
#define THREADS 4096

struct Block {
  struct Block* next;
  uint64_t address;
  uint64_t packets; /* in the block */
  uint64_t executed;
};

EXPORT int qemu_plugin_version = API;

static uint64_t first;
static uint64_t last;
static char file[4096];
static struct Block* blocks;
static unsigned char counts[THREADS];

static void on_begin(unsigned int cpu, void* data) {
  (void)data;
  if (cpu < THREADS) counts[cpu] = 1;
}

static void on_end(unsigned int cpu, void* data) {
  (void)data;
  if (cpu < THREADS) counts[cpu] = 0;
}

static void on_run(unsigned int cpu, void* data) {
  struct Block* block = data;
  if (cpu < THREADS && counts[cpu]) __atomic_fetch_add(&block->executed, block->packets, __ATOMIC_RELAXED);
}

static void on_seen(Id id, struct qemu_plugin_tb* tb) {
  const uint64_t address = qemu_plugin_tb_vaddr(tb);
  (void)id;
  if (address == first) qemu_plugin_register_vcpu_tb_exec_cb(tb, on_begin, NO_REGISTERS, NULL);
  if (address == last) qemu_plugin_register_vcpu_tb_exec_cb(tb, on_end, NO_REGISTERS, NULL);
  struct Block* block = calloc(1, sizeof *block);
  if (block == NULL) abort();
  block->address = address;
  block->packets = qemu_plugin_tb_n_insns(tb);
  block->next = __atomic_load_n(&blocks, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&blocks, &block->next, block, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
  }
  qemu_plugin_register_vcpu_tb_exec_cb(tb, on_run, NO_REGISTERS, block);
}

static void on_ended(Id id, void* data) {
  (void)id, (void)data;
  FILE* out = fopen(file, "w");
  if (out == NULL) return;
  for (const struct Block* block = blocks; block != NULL; block = block->next) {
    if (block->executed) {
      fprintf(out, "%llx %llu\n", (unsigned long long)block->address, (unsigned long long)block->executed);
    }
  }
  fputs("end\n", out);
  fclose(out);
}

EXPORT int qemu_plugin_install(Id id, const void* info, int argc, char** argv) {
  (void)info;
  for (int i = 0; i < argc; ++i) {
    if (strncmp(argv[i], "begin=", 6) == 0) first = strtoull(argv[i] + 6, NULL, 16);
    if (strncmp(argv[i], "end=", 4) == 0) last = strtoull(argv[i] + 4, NULL, 16);
    if (strncmp(argv[i], "out=", 4) == 0) snprintf(file, sizeof file, "%s", argv[i] + 4);
  }
  if (first == 0 || last == 0 || file[0] == '\0') return 1;
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_seen);
  qemu_plugin_register_atexit_cb(id, on_ended, NULL);
  return 0;
}
