/* A stand-in for libandroid.so and libnativewindow.so of a device: every call is logged. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct {
  uint32_t width, height, layers, format;
  uint64_t usage;
  uint32_t stride, reserved;
  uint64_t reserved_too;
} Description;

typedef struct {
  int version, fds, ints, data[1];
} Handle;

typedef struct {
  Description is;
  Handle handle;
  void *at;
  size_t size;
  int users;
} Buffer;

static char log_lines[65536];
static int refusing, locking = 1;

#define SAY(...) snprintf(log_lines + strlen(log_lines), sizeof log_lines - strlen(log_lines), __VA_ARGS__)

const char *stand_in_log(void) { return log_lines; }
void stand_in_forget(void) { log_lines[0] = 0; }
void stand_in_refuse(int is) { refusing = is; }
void stand_in_lock(int is) { locking = is; }

static int pixel(uint32_t format) { return format == 0x21 ? 1 : 4; }

int ASharedMemory_create(const char *name, size_t size) {
  SAY("ASharedMemory_create(%s, %zu)\n", name, size);
  int fd = refusing ? -12 : memfd_create(name, MFD_CLOEXEC);
  return fd < 0 || ftruncate(fd, (off_t)size) == 0 ? fd : -1;
}

int AHardwareBuffer_allocate(const Description *wanted, Buffer **made) {
  SAY("allocate(%u x %u x %u, format %#x, usage %#llx)\n", wanted->width, wanted->height, wanted->layers,
      wanted->format, (unsigned long long)wanted->usage);
  if (refusing) return -12;
  Buffer *one = calloc(1, sizeof *one);
  one->is = *wanted;
  one->is.stride = wanted->format == 0x21 ? wanted->width : (wanted->width + 15) / 16 * 16;
  one->size = (size_t)one->is.stride * wanted->height * (size_t)pixel(wanted->format);
  one->handle = (Handle){12, 1, 0, {memfd_create("gralloc", MFD_CLOEXEC)}};
  if (ftruncate(one->handle.data[0], (off_t)one->size) != 0) return -1;
  one->at = mmap(NULL, one->size, PROT_READ | PROT_WRITE, MAP_SHARED, one->handle.data[0], 0);
  one->users = 1;
  *made = one;
  return 0;
}

void AHardwareBuffer_describe(const Buffer *one, Description *is) { *is = one->is; }

int AHardwareBuffer_lock(Buffer *one, uint64_t usage, int32_t fence, const void *part, void **at) {
  SAY("lock(%#llx, %d, %s)\n", (unsigned long long)usage, fence, part == NULL ? "all" : "part");
  *at = one->at;
  return locking ? 0 : -22;
}

int AHardwareBuffer_unlock(Buffer *one, int32_t *fence) {
  SAY("unlock\n");
  return one == NULL || fence != NULL;
}

void AHardwareBuffer_acquire(Buffer *one) {
  SAY("acquire\n");
  one->users++;
}

void AHardwareBuffer_release(Buffer *one) {
  SAY("release\n");
  if (--one->users > 0) return;
  munmap(one->at, one->size);
  close(one->handle.data[0]);
  free(one);
}

#ifndef APP
const Handle *AHardwareBuffer_getNativeHandle(const Buffer *one) { return &one->handle; }
#endif
