// Reports on stderr what a kernel was doing when it touched memory that is not its own, before the process ends.
//
//   udogen-fault SIGNAL read|write|unknown ADDRESS
//   udogen-frame OFFSET LIBRARY            innermost first
//   udogen-region ADDRESS SIZE TENSOR      a copy of a tensor that the runtime made (fence.c)
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "watch.h"

#define EXPORT __attribute__((visibility("default")))
#define X86_WRITE 2  // in the error code of a page fault

static void write_line(const char *line, int length) {
  if (length > 0 && write(STDERR_FILENO, line, (size_t)length) < 0) return;
}

static void frame(void *address, int is_return) {
  char line[1024];
  Dl_info info;
  struct link_map *map = NULL;
  if (!dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) || map == NULL || info.dli_fname == NULL) return;
  uintptr_t offset = (uintptr_t)address - map->l_addr - (is_return ? 1 : 0);
  write_line(line, snprintf(line, sizeof line, "udogen-frame 0x%lx %s\n", (unsigned long)offset, info.dli_fname));
}

static void caught(int number, siginfo_t *info, void *context) {
  const ucontext_t *at = context;
  const char *how = "unknown";
  void *pc = NULL;
#ifdef __x86_64__
  how = at->uc_mcontext.gregs[REG_TRAPNO] != 14 ? "unknown" : at->uc_mcontext.gregs[REG_ERR] & X86_WRITE ? "write" : "read";
  pc = (void *)at->uc_mcontext.gregs[REG_RIP];
#endif
  char line[128];
  write_line(line, snprintf(line, sizeof line, "udogen-fault %d %s 0x%lx\n", number, how, (unsigned long)(uintptr_t)info->si_addr));
  if (pc != NULL) frame(pc, 0);
  void *frames[UDOGEN_DEPTH];
  int depth = backtrace(frames, UDOGEN_DEPTH), i = 0;
  while (i < depth && frames[i] != pc) i++;
  for (i = i < depth ? i + 1 : 2; i < depth; i++) frame(frames[i], 1);
  udogen_fence_tell();
  // SA_RESETHAND: the instruction is tried again, and the process ends as it would have.
}

EXPORT int udogen_watch_faults(void) {
  void *frames[4];
  backtrace(frames, 4);  // its first call loads the unwinder
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = caught;
  action.sa_flags = SA_SIGINFO | (int)SA_RESETHAND;
  sigemptyset(&action.sa_mask);
  return sigaction(SIGSEGV, &action, NULL) | sigaction(SIGBUS, &action, NULL);
}
