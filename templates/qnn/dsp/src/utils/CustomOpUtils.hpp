// Auto-generated part of every op package that udogen generates for the DSP backend (V65, V66); regenerating rewrites this file.
//
// What a kernel sees: its tensors, typed, named and without a copy, and the DSP with its threads and its memory.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <new>

#include "BackendUtils.hpp"
#include "DSP/QnnDspOpPackage.h"
#include "Quantization.hpp"

namespace udo {

using RawTensor = Udo_TensorParam_t;

/// The dimensions of a tensor.
class Shape {
 public:
  Shape(const std::uint32_t* dims, std::size_t rank) : dims_(dims), rank_(rank) {}

  std::size_t rank() const { return rank_; }
  std::uint32_t operator[](std::size_t axis) const { return dims_[axis]; }
  const std::uint32_t* begin() const { return dims_; }
  const std::uint32_t* end() const { return dims_ + rank_; }

  /// The number of elements of the axes `first` … `last - 1`; of all of them without arguments.
  std::size_t count(std::size_t first, std::size_t last) const {
    std::size_t product = 1;
    for (std::size_t axis = first; axis < last; ++axis) product *= dims_[axis];
    return product;
  }
  std::size_t count() const { return count(0, rank_); }

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (std::size_t axis = 0; axis < a.rank_; ++axis) {
      if (a.dims_[axis] != b.dims_[axis]) return false;
    }
    return true;
  }
  friend bool operator!=(const Shape& a, const Shape& b) { return !(a == b); }

 private:
  const std::uint32_t* dims_;
  std::size_t rank_;
};

/// What every view can do, whatever its element type.
class View {
 public:
  View() = default;
  explicit View(const RawTensor* raw) : raw_(raw) {}

  /// False for an optional tensor that the client left out.
  explicit operator bool() const { return raw_ != nullptr && raw_->layout != UDO_LAYOUT_NULL; }

  /// The DSP fills ranks below 4 with ones in front.
  Shape shape() const { return Shape(raw_->currDimensions, raw_->tensorRank); }
  std::size_t size() const { return shape().count(); }

  /// The smallest and the largest real number that the 256 stored ones stand for; both 0 where there is no such range.
  float lowest() const { return isQuantized() ? raw_->quantizeParams.TFParams.minValue : 0.0f; }
  float highest() const { return isQuantized() ? raw_->quantizeParams.TFParams.maxValue : 0.0f; }

  /// The same as scale and offset, with zero as one of the stored numbers; scale 1 and offset 0 without a range.
  Quantization quantization() const {
    const float step = (highest() - lowest()) / 255.0f;
    if (!(step > 0.0f)) return Quantization{};
    return Quantization{step, static_cast<std::int32_t>(std::nearbyint(lowest() / step))};
  }

  const RawTensor* raw() const { return raw_; }

 protected:
  bool isQuantized() const { return raw_->quantizeParams.quantizeType == UDO_QUANTIZATION_TF; }

  const RawTensor* raw_ = nullptr;
};

/// An input (or a parameter) whose elements are of type T.
template <class T>
class Input : public View {
 public:
  using View::View;
  const T* data() const { return static_cast<const T*>(raw_->tensorData); }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size(); }
  const T& operator[](std::size_t index) const { return data()[index]; }
};

/// An output whose elements are of type T; Dsp::resize makes it smaller.
template <class T>
class Output : public View {
 public:
  using View::View;
  T* data() const { return static_cast<T*>(raw_->tensorData); }
  T* begin() const { return data(); }
  T* end() const { return data() + size(); }
  T& operator[](std::size_t index) const { return data()[index]; }
};

/// A tensor parameter of several types: the type is known only when the op is made.
class AnyInput : public View {
 public:
  using View::View;

  Udo_DataType_t type() const { return raw_->dataType; }

  /// The elements, where they are of type T; ask `type()` first.
  template <class T>
  const T* data() const {
    return static_cast<const T*>(raw_->tensorData);
  }

  /// One element as a real number, whatever its type; fixed point is dequantized.
  float real(std::size_t index) const;
};

/// The fast memory of the vector unit that this operation may use; on some DSPs it is ordinary memory.
struct Vtcm {
  void* data;
  std::size_t size;
  bool isReal;
};

/// What the DSP does for one operation.
class Dsp {
 public:
  Dsp(const Udo_HexNNv2GlobalInfra_t& functions, const char* op, void* operation, Udo_TensorParam_t* outputs,
      std::uint32_t count)
      : functions_(functions), op_(op), operation_(operation), outputs_(outputs), count_(count) {}

  /// Runs `work(thread, threads)` on that many worker threads and waits for all of them; the first error is the answer.
  /// HVX belongs in here: the vector unit is the worker threads'.
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

  /// Gives an output other dimensions, of the same rank and not larger than there is room for.
  Status resize(const View& output, std::initializer_list<std::uint32_t> dims) const {
    return resize(output, dims.begin(), dims.size());
  }
  Status resize(const View& output, const std::uint32_t* dims, std::size_t rank) const;

  /// Says which real numbers the stored ones of an output stand for.
  Status setRange(const View& output, float lowest, float highest) const;

  /// Memory of the DSP's heap, aligned for vectors; not for executeOp.
  void* allocate(std::size_t bytes) const { return functions_.udoMemalign(128, bytes == 0 ? 1 : bytes); }
  void release(void* memory) const {
    if (memory != nullptr) functions_.udoFree(memory);
  }

  /// An object of one's own in such memory; nullptr where there is none left.
  template <class T, class... Values>
  T* create(Values&&... values) const {
    void* const room = allocate(sizeof(T));
    return room == nullptr ? nullptr : new (room) T{static_cast<Values&&>(values)...};
  }
  template <class T>
  void destroy(T* object) const {
    if (object == nullptr) return;
    object->~T();
    release(object);
  }

 private:
  struct Shared {
    const char* op;
    std::uint32_t threads;
    std::uint32_t started;
    Status first;
  };

  // Every worker is handed the same pointer: they count themselves.
  template <class Work>
  struct Job : Shared {
    const Work& work;
    Job(const Shared& shared, const Work& w) : Shared(shared), work(w) {}

    static void start(void*, void* given) {
      auto& job = *static_cast<Job*>(given);
      const Running running(job.op);
      const Status status = job.work(__atomic_fetch_add(&job.started, 1u, __ATOMIC_RELAXED), job.threads);
      if (status != ok) job.first = status;
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
