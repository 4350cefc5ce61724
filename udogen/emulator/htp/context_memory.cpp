#include "context_memory.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

namespace emulator {

AlignedMemory::AlignedMemory(std::size_t size)
    : data_(static_cast<unsigned char*>(std::aligned_alloc(bufferAlignment, roundUp(size + 1, bufferAlignment)))) {
  if (data_ == nullptr) throw std::bad_alloc();
}

const unsigned char* ContextMemory::place(const std::vector<unsigned char>& data) {
  std::uint64_t key = 0xcbf29ce484222325u;  // FNV-1a
  for (const unsigned char each : data) key = (key ^ each) * 0x100000001b3u;
  const auto [first, last] = placed_.equal_range(key);
  for (auto each = first; each != last; ++each) {
    const auto& [at, size] = each->second;
    if (size == data.size() && std::memcmp(at, data.data(), size) == 0) return at;
  }
  const std::size_t size = roundUp(data.size() + 1, valueAlignment);
  unsigned char* at = nullptr;
  if (weights.data != nullptr) {
    if (weightsUsed_ + size > weights.size) throw std::bad_alloc();  // its size was checked when it was registered
    at = weights.data + weightsUsed_;
  } else {
    owned_.emplace_back(size);
    at = owned_.back().data();
  }
  weightsUsed_ += size;
  std::memcpy(at, data.data(), data.size());
  placed_.emplace(key, std::make_pair(at, data.size()));
  return at;
}

std::uint64_t ContextMemory::sumOfWeights() const {
  std::uint64_t sum = 0, word = 0;
  for (std::size_t i = 0; i + sizeof word <= weightsUsed_; i += sizeof word) {
    std::memcpy(&word, weights.data + i, sizeof word);
    sum = (sum << 1 | sum >> 63) + word;
  }
  return sum;
}

void ContextMemory::sealWeights() {
  if (weights.data != nullptr) seal_ = sumOfWeights();
}

bool ContextMemory::areWeightsWhole() const { return weights.data == nullptr || seal_ == sumOfWeights(); }

}  // namespace emulator
