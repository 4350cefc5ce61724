// Auto-generated part of every op package that udogen generates; regenerating rewrites this file.
//: Replaces the start files of the Hexagon SDK in a shared library that zig builds: runs constructors when it is loaded
//: (DT_INIT, the last one first), destructors when it is unloaded (DT_FINI).  No library on a device has a DT_INIT_ARRAY.
#define HIDDEN __attribute__((visibility("hidden")))

extern "C" {

using Constructor = void (*)();
extern HIDDEN Constructor udo_constructors[];      // both from layout.ld
extern HIDDEN Constructor udo_constructors_end[];

HIDDEN void* __dso_handle = &__dso_handle;
void __cxa_finalize(void*);

HIDDEN void _init() {
  for (Constructor* each = udo_constructors_end; each != udo_constructors;) (*--each)();
}

HIDDEN void _fini() { __cxa_finalize(&__dso_handle); }

//: Called where libc++ would throw; the libc++ on devices is older than the headers and does not have this function.
void HAP_debug(const char* text, int level, const char* file, int line);
[[noreturn]] void abort();
[[noreturn]] HIDDEN void stop(const char* format, ...) __asm__("_ZNSt3__122__libcpp_verbose_abortEPKcz");
HIDDEN void stop(const char* format, ...) {
  HAP_debug(format, 4, "libc++", 0);
  abort();
}
}
