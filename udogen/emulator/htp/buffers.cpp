// External buffers of a context, and the rules of Qualcomm's shared-buffer tutorial.
#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "HTP/QnnHtpMem.h"
#include "context_memory.hpp"

namespace emulator {
namespace {

using File = std::array<std::uint64_t, 2>;

/// A memory descriptor as HTP reads it: which file, which part of it, which purpose.
struct Descriptor {
  QnnHtpMem_Type_t type = QNN_HTP_MEM_UNDEFINED;  // undefined: ION or a DMA buffer
  int fd = -1;
  std::uint64_t offset = 0, size = 0;
  File file = {};

  bool isExternal() const { return type == QNN_HTP_MEM_WEIGHTS_BUFFER || type == QNN_HTP_MEM_SHARED_SPILLFILL_BUFFER; }
};

const char* nameOf(QnnHtpMem_Type_t type) {
  switch (type) {
    case QNN_HTP_MEM_WEIGHTS_BUFFER: return "external weights buffer";
    case QNN_HTP_MEM_SHARED_SPILLFILL_BUFFER: return "external spill-fill buffer";
    case QNN_HTP_MEM_SHARED_BUFFER: return "shared buffer of tensors";
    default: return "buffer of a tensor";
  }
}

Descriptor read(const Qnn_MemDescriptor_t& from) {
  Descriptor descriptor;
  if (from.memType == QNN_MEM_TYPE_CUSTOM && from.customInfo != nullptr) {
    const auto& given = *static_cast<const QnnMemHtp_Descriptor_t*>(from.customInfo);
    descriptor.type = given.type;
    descriptor.fd = given.sharedBufferConfig.fd;
    descriptor.offset = given.sharedBufferConfig.offset;
    descriptor.size = given.size;
  } else if (from.memType == QNN_MEM_TYPE_ION) {
    descriptor.fd = from.ionInfo.fd;
  } else if (from.memType == QNN_MEM_TYPE_DMA_BUF) {
    descriptor.fd = from.dmaBufInfo.fd;
  }
  struct stat found = {};
  if (descriptor.fd >= 0 && fstat(descriptor.fd, &found) == 0) descriptor.file = {found.st_dev, found.st_ino};
  return descriptor;
}

/// What the file of a descriptor is registered for already, in any context.
Qnn_ErrorHandle_t checkOthers(const Descriptor& wanted, const Logger& logger) {
  for (const auto& other : objects().all<Context>()) {
    const ContextMemory& theirs = memoryOf(*other);
    const std::lock_guard<std::mutex> lock(other->mutex);
    for (const auto& [_, mem] : other->memory) {
      if (File{mem->file[0], mem->file[1]} != wanted.file) continue;
      const QnnHtpMem_Type_t type = mem == theirs.weights.holder ? QNN_HTP_MEM_WEIGHTS_BUFFER
                                    : mem == theirs.spill.holder ? QNN_HTP_MEM_SHARED_SPILLFILL_BUFFER
                                                                 : QNN_HTP_MEM_UNDEFINED;
      if (type == QNN_HTP_MEM_UNDEFINED && !wanted.isExternal()) continue;
      if (type != wanted.type) {
        logger.error("file descriptor %d is registered as %s: it cannot be used as %s too", wanted.fd, nameOf(type),
                     nameOf(wanted.type));
        return QNN_MEM_ERROR_ALREADY_REGISTERED;
      }
      const std::uint64_t end = mem->request.size, begin = mem->request.offset;
      const bool overlaps = wanted.offset < end && wanted.offset + wanted.size > begin;
      const bool isShared = type == QNN_HTP_MEM_SHARED_SPILLFILL_BUFFER && wanted.offset == begin;
      if (overlaps && !isShared) {
        logger.error("this %s overlaps that of another context", nameOf(type));
        return QNN_MEM_ERROR_ALREADY_REGISTERED;
      }
    }
  }
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t checkExternal(const Descriptor& wanted, const ContextMemory& shared, const Logger& logger) {
  const bool isWeights = wanted.type == QNN_HTP_MEM_WEIGHTS_BUFFER;
  const std::size_t needs = isWeights ? shared.weightsRequired : shared.spillRequired;
  const struct {
    bool isBroken;
    std::string text;
    Qnn_ErrorHandle_t code;
  } rules[] = {
      {!shared.isDeferred, "is for contexts that are created from a binary with QNN_CONTEXT_CONFIG_OPTION_DEFER_GRAPH_INIT",
       QNN_MEM_ERROR_NOT_SUPPORTED},
      {shared.conflict != nullptr, std::string("cannot be used with ") + (shared.conflict != nullptr ? shared.conflict : ""),
       QNN_MEM_ERROR_NOT_SUPPORTED},
      {shared.isFinalized, "is registered before its context is finalized", QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED},
      {(isWeights ? shared.weights : shared.spill).holder != nullptr, "is registered in this context already",
       QNN_MEM_ERROR_ALREADY_REGISTERED},
      {wanted.offset % bufferAlignment != 0, "begins at a multiple of BUFFER_START_ALIGNMENT, not at offset " +
       std::to_string(wanted.offset), QNN_MEM_ERROR_INVALID_SHAPE},
      {wanted.size < needs, "has " + std::to_string(wanted.size) + " bytes, the context needs " + std::to_string(needs),
       QNN_MEM_ERROR_INVALID_SHAPE},
  };
  for (const auto& rule : rules) {
    if (!rule.isBroken) continue;
    logger.error("an %s %s", nameOf(wanted.type), rule.text.c_str());
    return rule.code;
  }
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t check(const Descriptor& wanted, const Context& context) {
  if (wanted.file == File{}) return QNN_SUCCESS;  // not a file: the core reports it
  const Logger& logger = context.backend->logger;
  const Qnn_ErrorHandle_t code = checkOthers(wanted, logger);
  return code == QNN_SUCCESS && wanted.isExternal() ? checkExternal(wanted, memoryOf(context), logger) : code;
}

/// Contexts that share a spill-fill buffer share its lock.
std::shared_ptr<std::mutex> turnOf(const File& file, std::uint64_t offset) {
  static std::mutex mutex;
  static std::map<std::pair<File, std::uint64_t>, std::weak_ptr<std::mutex>> turns;
  const std::lock_guard<std::mutex> lock(mutex);
  auto& found = turns[{file, offset}];
  auto turn = found.lock();
  if (turn == nullptr) found = turn = std::make_shared<std::mutex>();
  return turn;
}

void keep(ContextMemory& shared, const Descriptor& descriptor, void* handle) {
  if (!descriptor.isExternal()) return;
  const bool isWeights = descriptor.type == QNN_HTP_MEM_WEIGHTS_BUFFER;
  const auto holder = objects().find<Mem>(handle);
  const auto turn = isWeights ? nullptr : turnOf(descriptor.file, descriptor.offset);
  (isWeights ? shared.weights : shared.spill) = {holder, static_cast<unsigned char*>(holder->data()), descriptor.size, turn};
}

Qnn_ErrorHandle_t memDeRegister(const Qnn_MemHandle_t* handles, std::uint32_t count) {
  return guarded([&]() -> Qnn_ErrorHandle_t {
    for (std::uint32_t i = 0; handles != nullptr && i < count; ++i) {
      const auto mem = objects().find<Mem>(handles[i]);
      for (const auto& context : objects().all<Context>()) {
        ContextMemory& shared = memoryOf(*context);
        for (External* const each : {&shared.weights, &shared.spill}) {
          if (each->holder == mem && !shared.isFinalized) *each = {};
        }
      }
    }
    return core.memDeRegister(handles, count);
  });
}

/// One by one, so that each is compared with those before it; all or none.
Qnn_ErrorHandle_t memRegister(Qnn_ContextHandle_t handle, const Qnn_MemDescriptor_t* what, std::uint32_t count,
                              Qnn_MemHandle_t* made) {
  const auto context = objects().find<Context>(handle);
  if (context == nullptr || what == nullptr || made == nullptr || count == 0) {
    return core.memRegister(handle, what, count, made);
  }
  return guarded([&]() -> Qnn_ErrorHandle_t {
    std::fill_n(made, count, nullptr);
    for (std::uint32_t i = 0; i < count; ++i) {
      const Descriptor descriptor = read(what[i]);
      Qnn_ErrorHandle_t code = check(descriptor, *context);
      if (code == QNN_SUCCESS) code = core.memRegister(handle, &what[i], 1, &made[i]);
      if (code != QNN_SUCCESS) {
        if (i != 0) memDeRegister(made, i);
        std::fill_n(made, count, nullptr);
        return code;
      }
      keep(memoryOf(*context), descriptor, made[i]);
    }
    return QNN_SUCCESS;
  });
}

}  // namespace

void fillBuffers(QnnInterface_ImplementationV2_t& table) {
  table.memRegister = memRegister;
  table.memDeRegister = memDeRegister;
}

}  // namespace emulator
