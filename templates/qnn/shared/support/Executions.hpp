// Counts how often the kernel of each op ran.  An execution without an error does not prove that it did: a runtime may
// have used another op of the same name.  The library exports these functions, which begin with its name so that one
// process can load several packages:
//
//   uint64_t    <Package>Executions(const char* op);   UINT64_MAX for an unknown op; NULL: the sum of all ops
//   const char* <Package>Counted(void);                what is counted: "executions", "calls" or "nodes"

#include <atomic>
#include <cstddef>
#include <cstdint>

#if defined(_WIN32)
#define UDO_EXPORT_COUNT extern "C" __declspec(dllexport)
#else
#define UDO_EXPORT_COUNT extern "C" __attribute__((visibility("default")))
#endif

#define UDO_COUNTS 1

// The two functions of a package, defined next to its interface provider.
#define UDO_EXECUTIONS_OF(PACKAGE)                                                                        \
  UDO_EXPORT_COUNT std::uint64_t PACKAGE##Executions(const char* op) { return udo::executions.of(op); } \
  UDO_EXPORT_COUNT const char* PACKAGE##Counted(void) { return udo::executions.counted; }

namespace udo {

// How often one op was executed.  It has its own cache line, as ops of several graphs count at the same time.
struct alignas(64) Counter {
  constexpr Counter(const char* name) : op(name) {}
  void operator++() { count.fetch_add(1, std::memory_order_relaxed); }

  const char* const op;
  std::atomic<std::uint64_t> count{0};
  std::atomic<std::uint64_t> reported{0};  // with `udogen build --prove`, which also writes the counts
};

// The counters of a package, and how many runtimes of the process use it.
struct Executions {
  template <std::size_t N>
  constexpr Executions(const char* name, const char* what, Counter (&array)[N])
      : package(name), counted(what), counters(array), size(N) {}

  Status begin();  // always `ok`
  Status end();    // an error if no runtime has initialized the package
  bool isUsed() const { return users.load() != 0; }
  std::uint64_t of(const char* op) const;

  const char* const package;
  const char* const counted;
  Counter* const counters;
  const std::size_t size;
  std::atomic<int> users{0};
};

// Defined next to the tables of the package.
extern Executions executions;

void proveBegin();
void proveEnd();

}  // namespace udo
