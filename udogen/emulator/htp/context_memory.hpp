// What the graphs of one context share: its weights, and the memory for tensors between ops.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "mem.hpp"
#include "engine.hpp"

namespace emulator {

constexpr std::size_t bufferAlignment = 4096;  // of external buffers
constexpr std::size_t valueAlignment = 256;    // of tensors in them: two vectors of HVX

inline std::size_t roundUp(std::size_t size, std::size_t to) { return (size + to - 1) / to * to; }

/// A piece of memory of our own, aligned.
class AlignedMemory {
 public:
  explicit AlignedMemory(std::size_t size);
  unsigned char* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(void* at) const { std::free(at); }
  };
  std::unique_ptr<unsigned char, Free> data_;
};

/// Memory that the client registered for the whole context.
struct External {
  std::shared_ptr<Mem> holder;  // keeps it mapped
  void* handle = nullptr;
  unsigned char* data = nullptr;   // null: none was registered
  std::size_t size = 0;
  std::shared_ptr<std::mutex> turn;  // of a spill-fill buffer: one graph at a time, of whichever context
};

class ContextMemory : public ContextState {
 public:
  /// Copies a constant to where the context keeps its weights; equal ones are kept once.
  const unsigned char* place(const std::vector<unsigned char>& data);
  /// What was placed so far, and the most that one graph needs between its ops.
  std::size_t weightsSize() const { return weightsUsed_; }
  std::size_t spillSize() const { return spillNeeded_; }
  void needSpill(std::size_t bytes) { spillNeeded_ = bytes > spillNeeded_ ? bytes : spillNeeded_; }
  /// False if the external weights were changed by others.
  bool areWeightsWhole() const;
  void sealWeights();

  External weights, spill;

  // --- of a context that is made of a binary in two steps -------------------------------------------------------
  bool isFromBinary = false, isDeferred = false, isFinalized = false;
  const char* conflict = nullptr;  // its option that excludes external buffers
  const void* binary = nullptr;
  std::size_t binarySize = 0;
  std::size_t weightsRequired = 0, spillRequired = 0;

 private:
  std::uint64_t sumOfWeights() const;

  std::multimap<std::uint64_t, std::pair<const unsigned char*, std::size_t>> placed_;
  std::vector<AlignedMemory> owned_;
  std::size_t weightsUsed_ = 0, spillNeeded_ = 0;
  std::uint64_t seal_ = 0;
};

}  // namespace emulator
