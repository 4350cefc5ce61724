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
  for (const auto& [at, size] : placed_) {
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
  placed_.emplace_back(at, data.size());
  return at;
}

}  // namespace emulator
