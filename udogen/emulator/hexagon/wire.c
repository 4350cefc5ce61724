/* Reads the request, with every size checked, and writes the records of the result. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire.h"

static int result = -1;
static unsigned char* content;
static size_t length;
static size_t at;

static void write_all(const void* bytes, size_t size) {
  const char* next = bytes;
  while (size > 0) {
    const ssize_t done = write(result, next, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) _exit(3);
    next += done;
    size -= (size_t)done;
  }
}

void wire_record(uint32_t kind, const void* first, uint32_t first_size, const void* rest, uint32_t rest_size) {
  const uint32_t head[2] = {kind, first_size + rest_size};
  unsigned char small[1024];
  if (first_size + rest_size + sizeof head <= sizeof small) { /* in one piece: threads may speak at once */
    memcpy(small, head, sizeof head);
    if (first_size > 0) memcpy(small + sizeof head, first, first_size);
    if (rest_size > 0) memcpy(small + sizeof head + first_size, rest, rest_size);
    write_all(small, sizeof head + first_size + rest_size);
    return;
  }
  write_all(head, sizeof head);
  write_all(first, first_size);
  write_all(rest, rest_size);
}

void wire_text_record(uint32_t kind, const char* format, ...) {
  char text[768];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  wire_record(kind, text, (uint32_t)strlen(text), NULL, 0);
}

void fail(const char* format, ...) {
  char text[768];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  wire_record(RECORD_FAILED, text, (uint32_t)strlen(text), NULL, 0);
  _exit(2);
}

void wire_open(const char* request, const char* to) {
  result = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (result < 0) _exit(3);
  const int file = open(request, O_RDONLY | O_CLOEXEC);
  struct stat facts;
  if (file < 0 || fstat(file, &facts) != 0) fail("the request cannot be read: %s", strerror(errno));
  length = (size_t)facts.st_size;
  content = malloc(length + 4);
  if (content == NULL) fail("out of memory for the tensors (%zu bytes)", length);
  size_t have = 0;
  while (have < length) {
    const ssize_t done = read(file, content + have, length - have);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) fail("the request cannot be read: %s", done < 0 ? strerror(errno) : "it is cut off");
    have += (size_t)done;
  }
  close(file);
}

const void* wire_take(size_t size) {
  const size_t whole = (size + 3) & ~(size_t)3;
  if (whole < size || whole > length - at) fail("the request is cut off");
  const void* found = content + at;
  at += whole;
  return found;
}

uint32_t wire_number(void) {
  uint32_t value;
  memcpy(&value, wire_take(sizeof value), sizeof value);
  return value;
}

char* wire_text(void) {
  const uint32_t size = wire_number();
  const char* from = wire_take(size);
  char* made = malloc((size_t)size + 1);
  if (made == NULL) fail("out of memory");
  memcpy(made, from, size);
  made[size] = '\0';
  return made;
}
