// The DSP with its threads and its memory, for kernels whose `execute` or `prepare` has `udo::Dsp&` as last argument.

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "DSP/QnnDspOpPackage.h"

namespace udo {

/// The fast memory of the vector unit that this operation may use; on some DSPs it is ordinary memory.
struct Vtcm {
  void* data;
  std::size_t size;
  bool isReal;
};

/// The functions of the DSP for one operation.
class Dsp {
 public:
  Dsp(const Udo_HexNNv2GlobalInfra_t& functions, const char* op, void* operation, Udo_TensorParam_t* outputs,
      std::uint32_t count)
      : functions_(functions), op_(op), operation_(operation), outputs_(outputs), count_(count) {}

  /// Runs `work(thread, threads)` on that many worker threads and waits for all of them; returns the first error.
  /// Use HVX only in `work`: the vector unit belongs to the worker threads.
  template <class Work>
  Status run(std::uint32_t threads, const Work& work) const {
    Job<Work> job({op_, threads == 0 ? 1 : threads, 0, ok}, work);
    functions_.udoRunWorkerThreads(operation_, job.threads, Job<Work>::start, &job);
    return job.first;
  }

  /// The part of `count` elements that is for one of several threads, cut at multiples of `unit`.
  struct Part {
    std::size_t begin;
    std::size_t end;
  };
  static Part part(std::size_t count, std::size_t unit, std::uint32_t thread, std::uint32_t threads) {
    const std::size_t units = (count + unit - 1) / unit;
    const std::size_t begin = units * thread / threads * unit;
    const std::size_t end = units * (thread + 1) / threads * unit;
    return {begin < count ? begin : count, end < count ? end : count};
  }

  Vtcm vtcm() const {
    return {functions_.udoGetVtcmPtr(operation_), functions_.udoGetVtcmSize(operation_),
            functions_.udoVtcmIsReal(operation_) != 0};
  }

  /// Gives an output other dimensions, of the same rank; none may exceed its maximum.
  Status resize(const View& output, std::initializer_list<std::uint32_t> dims) const {
    return resize(output, dims.begin(), dims.size());
  }
  Status resize(const View& output, const std::uint32_t* dims, std::size_t rank) const;

  /// Sets the real numbers that the smallest and the largest stored number of an output represent.
  Status setRange(const View& output, float lowest, float highest) const;

  /// Memory of the DSP's heap, aligned for vectors and freed with the object: for `prepare`, not for `execute`.
  class Memory {
   public:
    Memory() = default;
    Memory(void* data, void (*release)(void*)) : data_(data), release_(release) {}
    Memory(Memory&& other) noexcept { *this = static_cast<Memory&&>(other); }
    Memory& operator=(Memory&& other) noexcept {
      const Memory old(data_, release_);
      data_ = other.data_;
      release_ = other.release_;
      other.data_ = nullptr;
      return *this;
    }
    ~Memory() {
      if (data_ != nullptr) release_(data_);
    }

    void* data() const { return data_; }  // nullptr if there was not enough memory

   private:
    void* data_ = nullptr;
    void (*release_)(void*) = nullptr;
  };
  Memory allocate(std::size_t bytes) const {
    return Memory(functions_.udoMemalign(128, bytes == 0 ? 1 : bytes), functions_.udoFree);
  }

 private:
  struct Shared {
    const char* op;
    std::uint32_t threads;
    std::uint32_t started;
    Status first;
  };

  // Every worker thread gets the same pointer, and takes the next number.
  template <class Work>
  struct Job : Shared {
    const Work& work;
    Job(const Shared& shared, const Work& w) : Shared(shared), work(w) {}

    static void start(void*, void* given) {
      auto& job = *static_cast<Job*>(given);
      const Running running(job.op);
      const Status status = job.work(__atomic_fetch_add(&job.started, 1u, __ATOMIC_RELAXED), job.threads);
      Status none = ok;
      if (status != ok) {
        __atomic_compare_exchange_n(&job.first, &none, status, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
      }
    }
  };

  std::uint32_t indexOf(const View& output) const;

  const Udo_HexNNv2GlobalInfra_t& functions_;
  const char* op_;
  void* operation_;
  Udo_TensorParam_t* outputs_;
  std::uint32_t count_;
};

}  // namespace udo
