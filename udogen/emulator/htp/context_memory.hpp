// What the graphs of one context share: its weights, and the memory for tensors between ops; and the calls that HTP
// implements itself, by group: they replace those of the core, which they call.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "calls.hpp"

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
  unsigned char* data = nullptr;   // null: none was registered
  std::size_t size = 0;
  std::shared_ptr<std::mutex> turn;  // of a spill-fill buffer: one graph at a time, of whichever context
};

/// The process domain of a device, and what contexts map in it.
struct Domain {
  explicit Domain(std::uint32_t number) : number(number) {}
  const std::uint32_t number;
  std::atomic<unsigned> handles{0};
  std::atomic<std::size_t> mapped{0};
};

/// A device handle; those of one device share its process domain.
struct HtpDevice : Device {
  explicit HtpDevice(std::shared_ptr<Domain> in);
  ~HtpDevice() override;
  const std::shared_ptr<Domain> domain;
};

/// The domain of a device; of a context without one it is that of the first.
std::shared_ptr<Domain> domainOf(std::uint32_t number);

/// Bytes that are mapped in a domain for as long as this lives.
class Mapping {
 public:
  Mapping() = default;
  ~Mapping() { end(); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  /// False, with a line in the log, if the domain would exceed its limit.
  bool begin(std::shared_ptr<Domain> in, std::size_t bytes, const Logger& logger);

 private:
  void end();
  std::shared_ptr<Domain> domain_;
  std::size_t bytes_ = 0;
};

class ContextMemory : public ContextState {
 public:
  /// Copies a constant to where the context keeps its weights; equal ones are kept once.
  const unsigned char* place(const std::vector<unsigned char>& data);
  /// What was placed so far, and the most that one graph needs between its ops.
  std::size_t weightsSize() const { return weightsUsed_; }
  std::size_t spillSize() const { return spillNeeded_; }
  void needSpill(std::size_t bytes) { spillNeeded_ = bytes > spillNeeded_ ? bytes : spillNeeded_; }

  External weights, spill;
  Mapping mapping;  // of its binary

  // --- of a context that is made of a binary in two steps -------------------------------------------------------
  bool isDeferred = false, isFinalized = false;
  const char* conflict = nullptr;  // its option that excludes external buffers
  const void* binary = nullptr;
  std::size_t binarySize = 0;
  std::size_t weightsRequired = 0, spillRequired = 0;

 private:
  std::vector<std::pair<const unsigned char*, std::size_t>> placed_;
  std::vector<AlignedMemory> owned_;
  std::size_t weightsUsed_ = 0, spillNeeded_ = 0;
};

/// The memory of a context.
inline ContextMemory& memoryOf(const Context& context) { return static_cast<ContextMemory&>(*context.shared); }

/// The calls of the core, before any was replaced.
extern QnnInterface_ImplementationV2_t core;

void fillDevices(QnnInterface_ImplementationV2_t& table);
void fillContexts(QnnInterface_ImplementationV2_t& table);
void fillBuffers(QnnInterface_ImplementationV2_t& table);

}  // namespace emulator
