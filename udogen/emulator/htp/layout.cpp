#include "layout.hpp"

#include <cstring>

namespace emulator {
namespace {

constexpr Layout rows[] = {
    {QHPI_Layout_Flat4, "Flat4", 4, 4, {{0, 0}, {1, 0}, {2, 0}, {3, 0}}},
    {QHPI_Layout_Flat5, "Flat5", 5, 5, {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}}},
    {QHPI_Layout_Flat6, "Flat6", 6, 6, {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}}},
    {QHPI_Layout_Crouton_8, "Crouton_8", 4, 7, {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {1, 8}, {2, 8}, {3, 32}}},
    {QHPI_Layout_Crouton_16, "Crouton_16", 4, 8, {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {1, 8}, {2, 2}, {3, 32}, {2, 2}}},
};

std::uint32_t chunkOf(const Layout& layout, std::uint32_t dim) {
  std::uint32_t product = 1;
  for (std::uint32_t i = 0; i < layout.count; ++i) {
    if (layout.chunks[i].dim == dim && layout.chunks[i].size != 0) product *= layout.chunks[i].size;
  }
  return product;
}

template <class Each>
void overAll(const QHPI_Shape& shape, const Each& each) {
  std::uint32_t at[QHPI_MAX_RANK] = {};
  const std::size_t total = countOf(shape);
  for (std::size_t i = 0; i < total; ++i) {
    each(i, at);
    for (std::uint32_t dim = shape.rank; dim-- > 0;) {
      if (++at[dim] < shape.dims[dim]) break;
      at[dim] = 0;
    }
  }
}

}  // namespace

const Layout* layoutOf(QHPI_Standard_Layout code) {
  for (const Layout& row : rows) {
    if (row.code == code) return &row;
  }
  return nullptr;
}

QHPI_Standard_Layout flatOf(std::uint32_t rank) {
  return rank <= 4 ? QHPI_Layout_Flat4 : rank == 5 ? QHPI_Layout_Flat5 : QHPI_Layout_Flat6;
}

bool hasBlocks(QHPI_Standard_Layout code) { return code >= QHPI_Layout_Crouton_8 && layoutOf(code) != nullptr; }

std::uint32_t sizeOfElement(QHPI_Element_Type type) {
  constexpr std::uint32_t sizes[] = {0, 1, 2, 2, 4, 4, 4, 1, 2, 8};
  return type < sizeof sizes / sizeof *sizes ? sizes[type] : 0;
}

std::size_t countOf(const QHPI_Shape& shape) {
  std::size_t product = 1;
  for (std::uint32_t i = 0; i < shape.rank && i < QHPI_MAX_RANK; ++i) product *= shape.dims[i];
  return product;
}

bool sameShape(const QHPI_Shape& a, const QHPI_Shape& b) {
  return a.rank == b.rank && a.rank <= QHPI_MAX_RANK && std::memcmp(a.dims, b.dims, a.rank * sizeof *a.dims) == 0;
}

// If a dimension is in two chunks, libQnnHtp returns the first: 1, 8, 2, 32 for Crouton_16.
QHPI_Shape blockOf(QHPI_Standard_Layout code) {
  QHPI_Shape block = {};
  if (!hasBlocks(code)) return block;
  const Layout& layout = *layoutOf(code);
  block.rank = layout.rank;
  for (std::uint32_t dim = 0; dim < layout.rank; ++dim) block.dims[dim] = 1;
  for (std::uint32_t i = layout.count; i-- > 0;) {
    if (layout.chunks[i].size != 0) block.dims[layout.chunks[i].dim] = layout.chunks[i].size;
  }
  return block;
}

std::size_t blocksOf(QHPI_Standard_Layout code, const QHPI_Shape& shape) {
  if (!hasBlocks(code)) return 1;
  const Layout& layout = *layoutOf(code);
  std::size_t product = 1;
  for (std::uint32_t dim = 0; dim < layout.rank; ++dim) {
    const std::uint32_t chunk = chunkOf(layout, dim);
    product *= (shape.dims[dim] + chunk - 1) / chunk;
  }
  return product;
}

std::size_t blockBytes(QHPI_Standard_Layout code, std::uint32_t elementSize) {
  const Layout& layout = *layoutOf(code);
  std::size_t product = elementSize;
  for (std::uint32_t dim = 0; dim < layout.rank; ++dim) product *= chunkOf(layout, dim);
  return product;
}

namespace {

/// Which block, and which element of it, holds the element at these coordinates.
void locate(QHPI_Standard_Layout code, const QHPI_Shape& shape, const std::uint32_t* at, std::size_t& block,
            std::size_t& element) {
  const Layout& layout = *layoutOf(code);
  block = element = 0;
  for (std::uint32_t i = 0; i < layout.count; ++i) {
    const auto [dim, size] = layout.chunks[i];
    if (size == 0) {
      const std::uint32_t chunk = chunkOf(layout, dim);
      block = block * ((shape.dims[dim] + chunk - 1) / chunk) + at[dim] / chunk;
      continue;
    }
    std::uint32_t below = 1;  // what later chunks of this dimension count
    for (std::uint32_t k = i + 1; k < layout.count; ++k) {
      if (layout.chunks[k].dim == dim) below *= layout.chunks[k].size;
    }
    element = element * size + at[dim] / below % size;
  }
}

}  // namespace

void toBlocks(QHPI_Standard_Layout code, const QHPI_Shape& shape, std::uint32_t elementSize, const void* flat,
              void* const* blocks) {
  overAll(shape, [&](std::size_t index, const std::uint32_t* at) {
    std::size_t block, element;
    locate(code, shape, at, block, element);
    std::memcpy(static_cast<char*>(blocks[block]) + element * elementSize,
                static_cast<const char*>(flat) + index * elementSize, elementSize);
  });
}

void fromBlocks(QHPI_Standard_Layout code, const QHPI_Shape& shape, std::uint32_t elementSize, void* flat,
                void* const* blocks) {
  overAll(shape, [&](std::size_t index, const std::uint32_t* at) {
    std::size_t block, element;
    locate(code, shape, at, block, element);
    std::memcpy(static_cast<char*>(flat) + index * elementSize,
                static_cast<const char*>(blocks[block]) + element * elementSize, elementSize);
  });
}

}  // namespace emulator
