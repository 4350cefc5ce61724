// Memory that a client registers: a file descriptor, mapped here, whose bytes tensors are bound to without copying.
#pragma once

#include <atomic>
#include <cstddef>

#include "QnnMem.h"
#include "log.hpp"

namespace emulator {

struct Context;

/// What a descriptor asks for, in words that fit each kind of memory.
struct MemRequest {
  int fd = -1;
  std::uint64_t offset = 0;  // of the tensor in the memory
  std::uint64_t size = 0;    // of the whole memory; 0: what the tensor takes
  bool isShared = false;     // several tensors, each at an offset of its own, may lie in it
  bool hasTensor = true;     // shape and data type mean something
};

struct Mem : Object {
  static constexpr Kind itsKind = Kind::mem;
  Mem() : Object(itsKind) {}
  ~Mem() override;

  /// Maps it; 8000, 8003 or 8004, with a sentence in the log, where it cannot be.
  static Qnn_ErrorHandle_t map(const Qnn_MemDescriptor_t& from, const MemRequest& request, const Logger& logger,
                               std::shared_ptr<Mem>& made);

  void* data() const { return static_cast<unsigned char*>(mapped) + request.offset; }

  MemRequest request;
  Qnn_MemType_t type = QNN_MEM_TYPE_UNDEFINED;
  Qnn_DataType_t dataType = QNN_DATATYPE_UNDEFINED;
  std::size_t bytes = 0;         // that the tensor takes
  std::uint64_t file[2] = {};    // what the descriptor leads to: a number may be given again after a close
  std::weak_ptr<Context> context;
  std::atomic<unsigned> uses{0};     // executions that are bound to it, and whatever else must not lose it

 private:
  void* mapped = nullptr;
  std::size_t length = 0;
};

}  // namespace emulator
