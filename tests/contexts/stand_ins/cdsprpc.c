/* A stand-in for libcdsprpc.so of a device: memory is a memfd, every call is logged. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char log_lines[65536];
static int left = -1; /* allocations until memory is exhausted; -1: unlimited */
static int blind;     /* rpcmem_to_fd finds no descriptor */
static struct { void *at; size_t size; int fd; } blocks[64];

#define SAY(...) snprintf(log_lines + strlen(log_lines), sizeof log_lines - strlen(log_lines), __VA_ARGS__)

const char *stand_in_log(void) { return log_lines; }
void stand_in_forget(void) { log_lines[0] = 0; }
void stand_in_limit(int allocations) { left = allocations; }
void stand_in_blind(int is) { blind = is; }

static void *take(const char *name, int heap, uint32_t flags, size_t size) {
  SAY("%s(%d, %u, %zu)\n", name, heap, flags, size);
  if (left == 0) return NULL;
  if (left > 0) --left;
  for (int i = 0; i < 64; ++i) {
    if (blocks[i].at != NULL) continue;
    int fd = memfd_create("dma", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)size) != 0) return NULL;
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (at == MAP_FAILED) return NULL;
    blocks[i].at = at;
    blocks[i].size = size;
    blocks[i].fd = fd;
    return at;
  }
  return NULL;
}

void *rpcmem_alloc(int heap, uint32_t flags, int size) { return take("rpcmem_alloc", heap, flags, (size_t)size); }
#ifndef OLD
void *rpcmem_alloc2(int heap, uint32_t flags, size_t size) { return take("rpcmem_alloc2", heap, flags, size); }
#endif

int rpcmem_to_fd(void *at) {
  SAY("rpcmem_to_fd\n");
  for (int i = 0; i < 64 && !blind; ++i) {
    if (blocks[i].at == at) return blocks[i].fd;
  }
  return -1;
}

int fastrpc_mmap(int domain, int fd, void *at, int offset, size_t length, int flags) {
  SAY("fastrpc_mmap(%d, %d, %zu, %d)\n", domain, offset, length, flags);
  return at == NULL || fd < 0 || blind ? (int)0x8000040d : 0;
}

int fastrpc_munmap(int domain, int fd, void *at, size_t length) {
  SAY("fastrpc_munmap(%d, %zu)\n", domain, length);
  return at == NULL || fd < 0;
}

void rpcmem_free(void *at) {
  for (int i = 0; i < 64; ++i) {
    if (at == NULL || blocks[i].at != at) continue;
    SAY("rpcmem_free\n");
    munmap(at, blocks[i].size);
    close(blocks[i].fd);
    blocks[i].at = NULL;
  }
}
