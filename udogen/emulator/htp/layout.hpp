// How tensors lie in memory: flat, or in the two kinds of blocks that libQnnHtp 2.47 delivers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "HTP/core/qhpi.h"

namespace emulator {

/// From the slowest to the fastest: a dimension, and how much of it is a chunk; 0: all that is left.
struct Chunk {
  std::uint8_t dim, size;
};

struct Layout {
  QHPI_Standard_Layout code;
  const char* name;
  std::uint32_t rank;
  std::uint32_t count;
  Chunk chunks[8];
};

/// The row of a layout; null for one in which the emulator has no tensors.
const Layout* layoutOf(QHPI_Standard_Layout code);
/// The flat layout of a rank, which HTP gives at least four dimensions.
QHPI_Standard_Layout flatOf(std::uint32_t rank);
bool hasBlocks(QHPI_Standard_Layout code);

std::uint32_t sizeOfElement(QHPI_Element_Type type);
std::size_t countOf(const QHPI_Shape& shape);
bool sameShape(const QHPI_Shape& a, const QHPI_Shape& b);

/// What a block of a layout holds; all zeros, and rank 0, for flat ones.
QHPI_Shape blockOf(QHPI_Standard_Layout code);
/// How many blocks a tensor of this shape takes, and the bytes of one of them.
std::size_t blocksOf(QHPI_Standard_Layout code, const QHPI_Shape& shape);
std::size_t blockBytes(QHPI_Standard_Layout code, std::uint32_t elementSize);

/// Copies between row-major elements and blocks; what the blocks have beyond the tensor is left as it is.
void toBlocks(QHPI_Standard_Layout code, const QHPI_Shape& shape, std::uint32_t elementSize, const void* flat,
              void* const* blocks);
void fromBlocks(QHPI_Standard_Layout code, const QHPI_Shape& shape, std::uint32_t elementSize, void* flat,
                void* const* blocks);

}  // namespace emulator
