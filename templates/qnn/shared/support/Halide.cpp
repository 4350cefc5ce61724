// Called by functions that Halide has compiled: one that cannot use its tensors reports that here and returns.

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <new>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace udo {
namespace halide {

#if defined(__x86_64__)
namespace {
// AVX2, and an operating system that saves its registers.
bool findVectors() {
  unsigned int a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0 || (c & bit_FMA) == 0) return false;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (b & bit_AVX2) == 0) return false;
  unsigned int low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & 6) == 6;
}
}  // namespace

const bool hasVectors = findVectors();
#else
const bool hasVectors = true;
#endif

// --- memory --------------------------------------------------------------------------------------------------------

namespace {
constexpr std::size_t line = 128;  // bytes of the longest vector, by which memory is aligned

unsigned char* newMemory(std::size_t bytes) {
#if defined(__hexagon__)
  return static_cast<unsigned char*>(::operator new(bytes));
#else
  return static_cast<unsigned char*>(::operator new(bytes, std::nothrow));
#endif
}

unsigned char* alignedIn(unsigned char* memory) {
  return memory + (line - reinterpret_cast<std::uintptr_t>(memory) % line) % line;
}

// The line before each allocation.
struct Header {
  unsigned char* whole;   // what was allocated for it alone, outside of a block
  std::size_t bytes;      // with this line
  unsigned char* before;  // the allocation before it in a block
  bool isFree;
};

Header& headerOf(void* memory) { return *reinterpret_cast<Header*>(static_cast<unsigned char*>(memory) - line); }
}  // namespace

// Where the last allocation of a measured function would be, nothing is: the function returns an error.
void* Call::allocate(std::size_t bytes) {
  const std::size_t rounded = (bytes + 3 * line - 1) / line * line;  // vectors of HVX may end after the last element
  if (used_ + alone_ + rounded > most_) most_ = used_ + alone_ + rounded;
  if (measures_) {
    used_ += rounded;
    return --left_ == 0 ? nullptr : this;
  }
  if (used_ + rounded <= size_) {
    unsigned char* const found = memory_ + used_ + line;
    headerOf(found) = {nullptr, rounded, newest_, false};
    newest_ = found;
    used_ += rounded;
    return found;
  }
  unsigned char* const whole = newMemory(rounded + line);
  if (whole == nullptr) return nullptr;
  unsigned char* const found = alignedIn(whole) + line;
  headerOf(found) = {whole, rounded, nullptr, false};
  alone_ += rounded;
  return found;
}

// Memory is released in any order: that of a block is used again once all that was allocated after it is released.
void Call::release(void* memory) {
  if (measures_ || memory == nullptr) return;
  Header& header = headerOf(memory);
  if (header.whole != nullptr) {
    alone_ -= header.bytes;
    ::operator delete(header.whole);
    return;
  }
  header.isFree = true;
  while (newest_ != nullptr && headerOf(newest_).isFree) {
    used_ -= headerOf(newest_).bytes;
    newest_ = headerOf(newest_).before;
  }
}

// Blocks are for as many threads as execute ops at the same time; others use the heap.
struct Memory::Block {
  std::atomic<bool> isTaken;
  unsigned char* memory;
  std::size_t size;

  void grow(std::size_t bytes) {
    if (bytes <= size) return;
    ::operator delete(memory);
    memory = newMemory(bytes + line);
    size = memory == nullptr ? 0 : bytes;
  }
#if !defined(__hexagon__)  // which has no end of a library
  ~Block() { ::operator delete(memory); }
#endif
};

Memory::Block Memory::blocks_[16] = {};

Memory::Memory(Call& call, std::size_t bytes) : call_(call), block_(nullptr) {
  for (Block& each : blocks_) {
    if (each.isTaken.exchange(true, std::memory_order_acquire)) continue;
    block_ = &each;
    break;
  }
  if (block_ == nullptr) return;
  block_->grow(bytes);
  call_.memory_ = block_->memory == nullptr ? nullptr : alignedIn(block_->memory);
  call_.size_ = block_->size;
}

Memory::~Memory() {
  if (block_ == nullptr) return;
  block_->grow(call_.most_);  // for the next call
  block_->isTaken.store(false, std::memory_order_release);
}

#if defined(__clang__)
#pragma clang optimize off  // errors
#endif
void Call::fail(const char* format, ...) {
  if (!ok()) return;
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(message_, sizeof message_, format, arguments);
  va_end(arguments);
}

// Halide's name of a buffer ends with the name of the tensor, which `$` and a number may follow.
const char* Call::linesOf(const char* buffer) const {
  const char* space = std::strrchr(buffer, ' ');
  const char* name = space == nullptr ? buffer : space + 1;
  const std::size_t length = std::strcspn(name, "$");
  for (const Lines* each = lines_; each != nullptr && each->tensor != nullptr; ++each) {
    if (std::strncmp(each->tensor, name, length) == 0 && each->tensor[length] == '\0') return each->lines;
  }
  return "";
}

namespace {
int failed(void* call, const char* name, const char* what) {
  static_cast<Call*>(call)->fail("`%s` %s", name, what);
  return -1;
}
}  // namespace
}  // namespace halide
}  // namespace udo

using udo::halide::Call;
using udo::halide::failed;

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif
extern "C" {

// NOLINTBEGIN: the names are Halide's
int halide_error_access_out_of_bounds(void* call, const char* name, int, int first, int last, int low, int high) {
  auto& found = *static_cast<Call*>(call);
  found.fail("%s is accessed at %d to %d, and has %d to %d%s", name, first, last, low, high, found.linesOf(name));
  return -1;
}
int halide_error_constraint_violated(void* call, const char* name, int value, const char*, int expected) {
  static_cast<Call*>(call)->fail("%s is %d, and the kernel is for %d", name, value, expected);
  return -1;
}
int halide_error_requirement_failed(void* call, const char*, const char* message) {
  static_cast<Call*>(call)->fail("%s", message);
  return -1;
}
int halide_error_bad_type(void* call, const char* name) { return failed(call, name, "is of another type"); }
int halide_error_bad_dimensions(void* call, const char* name) { return failed(call, name, "has another rank"); }
int halide_error_buffer_allocation_too_large(void* call, const char* name) {
  return failed(call, name, "is larger than 2^31 bytes");
}
int halide_error_buffer_extents_too_large(void* call, const char* name) {
  return failed(call, name, "has more than 2^31 elements");
}
int halide_error_buffer_extents_negative(void* call, const char* name) { return failed(call, name, "is too large"); }
int halide_error_buffer_argument_is_null(void* call, const char* name) { return failed(call, name, "is missing"); }
int halide_error_host_is_null(void* call, const char* name) { return failed(call, name, "has no data"); }
int halide_error_unaligned_host_ptr(void* call, const char* name) { return failed(call, name, "is not aligned"); }
int halide_error_device_dirty_with_no_device_support(void* call, const char* name) {
  return failed(call, name, "lies on a device");
}
int halide_error_constraints_make_required_region_smaller(void* call, const char* name) {
  return failed(call, name, "is smaller than the kernel reads or writes");
}
int halide_error_storage_bound_too_small(void* call, const char* name) {
  return failed(call, name, "needs more memory than its bound");
}
int halide_error_explicit_bounds_too_small(void* call, const char* name) {
  return failed(call, name, "is smaller than its bounds");
}
int halide_error_split_factor_not_positive(void* call, const char* name) {
  return failed(call, name, "is split by a number that is not positive");
}
int halide_error_specialize_fail(void* call, const char* message) { return failed(call, "specialize", message); }
int halide_error_out_of_memory(void* call) { return failed(call, "the kernel", "has no memory"); }

#if defined(__clang__)
#pragma clang optimize on
#endif

#if !defined(UDO_GPU)
void* halide_malloc(void* call, std::size_t bytes) { return static_cast<Call*>(call)->allocate(bytes); }
void halide_free(void* call, void* memory) { static_cast<Call*>(call)->release(memory); }
#endif

#if defined(__hexagon__)
// The runtime gives a kernel its vector unit and its memory before it calls it.
int halide_qurt_hvx_lock(void*) { return 0; }
int halide_qurt_hvx_unlock(void*) { return 0; }
void halide_qurt_hvx_unlock_as_destructor(void*, void*) {}
void* halide_vtcm_malloc(void*, int) { return nullptr; }
void halide_vtcm_free(void*, void*) {}
#endif
// NOLINTEND
}
#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
