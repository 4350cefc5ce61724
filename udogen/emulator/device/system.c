/* The system of a DSP, as far as a library calls it while it is loaded and registered: one thread, memory, and a log.
 * No file, thread, queue, power or resource of a chip: what is not here ends the program with its name. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader.h"

/* --- variable arguments: on the stack, where a structure that is passed by value lies, too --------------------- */

struct Arguments {
  uint32_t words[32];
};

/* What takes a va_list here needs three pointers, for arguments in registers and on the stack; a DSP has only one. */
static void start_list(va_list* list, const void* stack) {
  const void* const three[3] = {NULL, NULL, stack};
  _Static_assert(sizeof three == sizeof *list, "another va_list");
  memcpy(list, three, sizeof three);
}

static void log_text(int level, const char* format, const void* stack) {
  char text[1024];
  va_list list;
  start_list(&list, stack);
  vsnprintf(text, sizeof text, format, list);
  say("log", "%d %s", level, text);
}

enum { FROM_PRINTF = 100 };

int dsp_printf(const char* format, struct Arguments rest) { return log_text(FROM_PRINTF, format, &rest), 0; }
int dsp_vprintf(const char* format, void* list) { return log_text(FROM_PRINTF, format, list), 0; }
int dsp_fprintf(void* file, const char* format, struct Arguments rest) {
  (void)file;
  return log_text(FROM_PRINTF, format, &rest), 0;
}
int dsp_puts(const char* text) { return say("log", "%d %s", FROM_PRINTF, text), 0; }
int dsp_vsnprintf(char* text, size_t size, const char* format, void* stack) {
  va_list list;
  start_list(&list, stack);
  return vsnprintf(text, size, format, list);
}
int dsp_snprintf(char* text, size_t size, const char* format, struct Arguments rest) {
  return dsp_vsnprintf(text, size, format, &rest);
}
void dsp_HAP_debug_v2(int level, const char* file, int line, const char* format, struct Arguments rest) {
  (void)file, (void)line;
  log_text(level, format, &rest);
}
void dsp_HAP_debug(const char* text, int level, const char* file, int line) {
  (void)file, (void)line;
  say("log", "%d %s", level, text);
}

/* --- memory ----------------------------------------------------------------------------------------------------- */

void* dsp___wrap_malloc(size_t size) { return malloc(size); }
void dsp___wrap_free(void* block) { free(block); }
void* dsp___wrap_realloc(void* block, size_t size) { return realloc(block, size); }
void* dsp___wrap_memalign(size_t alignment, size_t size) { return aligned_alloc(alignment, size); }

/* --- the C++ runtime: nothing is destroyed, nothing is thrown ---------------------------------------------------- */

struct TypeInfo {
  const void* functions;
  const char* name;
};

void dsp___register_frame_info_bases(void) {}
int dsp___cxa_atexit(void) { return 0; }
void dsp___cxa_finalize(void) {}
int dsp___cxa_guard_acquire(char* guard) { return *guard == 0; }
void dsp___cxa_guard_release(char* guard) { *guard = 1; }
void dsp___cxa_guard_abort(char* guard) { (void)guard; }
void dsp___cxa_throw(void* object, const struct TypeInfo* type) {
  (void)object;
  stop("thrown", type->name);
}

/* --- one thread: a lock is always free; the C++ library here has locks of another size --------------------------- */

#define FREE(name) \
  int dsp_##name(void) { return 0; }
FREE(qurt_mutex_init)
FREE(qurt_mutex_destroy)
FREE(qurt_mutex_lock)
FREE(qurt_mutex_unlock)
FREE(qurt_cond_init)
FREE(qurt_cond_destroy)
FREE(qurt_cond_signal)
FREE(qurt_cond_broadcast)
FREE(_ZNSt3__15mutex4lockEv)
FREE(_ZNSt3__15mutex6unlockEv)
FREE(_ZNSt3__15mutexD1Ev)
FREE(_ZNSt3__119__shared_mutex_baseC1Ev)
FREE(_ZNSt3__119__shared_mutex_base4lockEv)
FREE(_ZNSt3__119__shared_mutex_base6unlockEv)
FREE(_ZNSt3__119__shared_mutex_base11lock_sharedEv)
FREE(_ZNSt3__119__shared_mutex_base13unlock_sharedEv)
FREE(_ZNSt3__118condition_variable10notify_allEv)
FREE(_ZNSt3__118condition_variable10notify_oneEv)
FREE(_ZNSt3__118condition_variableD1Ev)

#define ENDS(name) \
  void dsp_##name(void) { stop("called", #name); }
ENDS(pthread_create)
ENDS(fopen)

/* --- QuRT ------------------------------------------------------------------------------------------------------- */

int dsp_qurt_hvx_get_units(void) { return 0; }
int dsp_qurt_sysenv_get_max_hw_threads(uint32_t* count) {
  *count = 1;
  return 0;
}
FREE(HAP_mem_set_grow_size)
