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

/// The two functions of a package, defined next to its interface provider.
#define UDO_EXECUTIONS_OF(PACKAGE)                                                                        \
  UDO_EXPORT_COUNT std::uint64_t PACKAGE##Executions(const char* op) { return udo::executions.of(op); } \
  UDO_EXPORT_COUNT const char* PACKAGE##Counted(void) { return udo::executions.counted(); }

namespace udo {

/// How often one op was executed.  It has its own cache line, as ops of several graphs count at the same time.
class alignas(64) Counter {
 public:
  constexpr Counter(const char* op) : op_(op) {}

  void operator++() { count_.fetch_add(1, std::memory_order_relaxed); }

  const char* op() const { return op_; }
  std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }

  /// The count since the last call.
  std::uint64_t news() {
    const std::uint64_t now = count();
    return now - reported_.exchange(now);
  }

 private:
  const char* const op_;
  std::atomic<std::uint64_t> count_{0};
  std::atomic<std::uint64_t> reported_{0};
};

/// The counters of a package, and how many runtimes of the process use it.
class Executions {
 public:
  template <std::size_t N>
  constexpr Executions(const char* package, const char* counted, Counter (&counters)[N])
      : package_(package), counted_(counted), counters_(counters), size_(N) {}

  /// One more runtime has initialized the package; always `ok`.
  Status begin();

  /// One of them has terminated it; an error if none had initialized it.
  Status end();
  bool isUsed() const { return users_.load() != 0; }

  std::uint64_t of(const char* op) const;
  const char* counted() const { return counted_; }
  const char* package() const { return package_; }
  std::size_t size() const { return size_; }
  Counter& at(std::size_t index) const { return counters_[index]; }

 private:
  const char* const package_;
  const char* const counted_;
  Counter* const counters_;
  const std::size_t size_;
  std::atomic<int> users_{0};
};

/// The counters of this package, defined next to its tables.
extern Executions executions;

// Of `udogen build --prove`, which also writes the counts to a file, or to the log of the DSP.
void proveBegin();
void proveEnd();

}  // namespace udo
