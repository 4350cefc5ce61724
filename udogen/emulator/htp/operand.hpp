// A tensor as a kernel sees it, and the handle with which it runs.
#pragma once

#include <cstdint>
#include <vector>

#include "HTP/core/qhpi.h"

struct QHPI_Tensor {
  QHPI_OutputDef definition;
  QHPI_Standard_Layout layout;
  QHPI_MemLoc placement;
  bool isIndirect;
  void* data;                 // null where there is none: while kernels are chosen, and for most while they prepare
  std::vector<void*> blocks;  // of a tensor in blocks; else `data` alone
};

struct QHPI_RuntimeHandle {
  std::uint32_t slices, slice;
  void* shared;
  std::uint32_t resources;
};
