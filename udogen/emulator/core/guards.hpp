// Bytes around the memory of a tensor that must not change.
//
// They depend on the tensor and on the place.  Those of outputs are between 0x21 and 0x3e in the first execution, between
// 0xc1 and 0xde from the second on; all others are between 0x41 and 0xbe, without 0x7f and 0x80, and stay.  So what a
// kernel copies from guard to guard, its minimum and maximum, and what saturates, is seen at once; any other byte may be
// the one that was there in one execution, and is not in the next.  udogen/emulator/hexagon/guards.c and
// udogen/runtime/worker/op_graph.py have the same pattern.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "log.hpp"

namespace emulator {

constexpr std::size_t guardBytes = 128;  // on each side

/// Whose guards they are.
struct GuardKey {
  bool isOutput = false;
  std::uint32_t number = 0;  // among the tensors of the graph

  /// The byte at this distance from the end of the data (from its beginning, if it is negative).
  unsigned char at(std::ptrdiff_t distance, bool later) const {
    if (isOutput) {
      const std::uint32_t value = mixed(static_cast<std::uint32_t>(distance) + (later ? 1u : 0u)) + 17 * number;
      return static_cast<unsigned char>((later ? 0xc1u : 0x21u) + value % 30);
    }
    const std::uint32_t value = (mixed(static_cast<std::uint32_t>(distance)) + 37 * number) % 124;
    return static_cast<unsigned char>(value < 62 ? 0x41 + value : 0x81 + value - 62);
  }

 private:
  static std::uint32_t mixed(std::uint32_t value) {
    value *= 0x9e3779b1u;
    value ^= value >> 15;
    value *= 0x85ebca77u;
    return value >> 13;
  }
};

/// Bytes that are not what they were: how many, and the distance of the first.
struct Changed {
  std::size_t count = 0, first = 0;

  void see(bool isChanged, std::size_t distance) {
    if (isChanged && count++ == 0) first = distance;
  }
};

inline void fillGuard(unsigned char* begin, std::ptrdiff_t distance, const GuardKey& key, bool later) {
  for (std::size_t i = 0; i < guardBytes; ++i) begin[i] = key.at(distance + static_cast<std::ptrdiff_t>(i), later);
}

/// `distance` is that of the first byte of the guard: 0 behind the data, -guardBytes before it.
inline Changed compareGuard(const unsigned char* begin, std::ptrdiff_t distance, const GuardKey& key, bool later) {
  Changed found;
  for (std::size_t i = 0; i < guardBytes; ++i) {
    found.see(begin[i] != key.at(distance + static_cast<std::ptrdiff_t>(i), later), i);
  }
  return found;
}

constexpr std::ptrdiff_t guardFront = -static_cast<std::ptrdiff_t>(guardBytes);

/// Fills the guards of some data.
inline void fillGuards(unsigned char* data, std::size_t bytes, const GuardKey& key, bool later) {
  fillGuard(data + guardFront, guardFront, key, later);
  fillGuard(data + bytes, 0, key, later);
}

/// Whether the guards of some data are as they were filled; the log has what `who` wrote beside `what`.
inline bool areGuardsWhole(const Logger& logger, const std::string& who, const std::string& what,
                           const unsigned char* data, std::size_t bytes, const GuardKey& key, bool later) {
  const Changed before = compareGuard(data + guardFront, guardFront, key, later);
  const Changed behind = compareGuard(data + bytes, 0, key, later);
  if (behind.count != 0) {
    logger.error("%s wrote past the end of %s (%zu bytes): at byte %zu, %zu in all", who.c_str(), what.c_str(), bytes,
                 bytes + behind.first, behind.count);
  } else if (before.count != 0) {
    logger.error("%s wrote before the beginning of %s (%zu bytes): %zu bytes before it, %zu in all", who.c_str(),
                 what.c_str(), bytes, guardBytes - before.first, before.count);
  }
  return before.count + behind.count == 0;
}

/// Whether data that must not be written is `expected`.
inline bool isUnchanged(const Logger& logger, const std::string& who, const std::string& what,
                        const unsigned char* data, const unsigned char* expected, std::size_t bytes) {
  Changed found;
  for (std::size_t i = 0; i < bytes; ++i) found.see(data[i] != expected[i], i);
  if (found.count == 0) return true;
  logger.error("%s wrote into %s, which it must not: at byte %zu of %zu, %zu in all", who.c_str(), what.c_str(),
               found.first, bytes, found.count);
  return false;
}

}  // namespace emulator
