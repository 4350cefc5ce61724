// External buffers of a context, and the rules of Qualcomm's shared-buffer tutorial.
#include <sys/stat.h>

#include <array>

#include "HTP/QnnHtpMem.h"
#include "overrides.hpp"

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

File fileOf(const Mem& mem) { return {mem.file[0], mem.file[1]}; }

class Rules {
 public:
  Rules(const std::shared_ptr<Context>& context, const Descriptor& descriptor)
      : context_(context), shared_(memoryOf(*context)), descriptor_(descriptor), logger_(context->backend->logger) {}

  Qnn_ErrorHandle_t check() const {
    if (descriptor_.file == File{}) return QNN_SUCCESS;  // not a file: the core reports it
    Qnn_ErrorHandle_t code = checkOthers();
    if (code == QNN_SUCCESS && descriptor_.isExternal()) code = checkContext();
    if (code == QNN_SUCCESS && descriptor_.isExternal()) code = checkPlace();
    return code;
  }

 private:
  const char* name() const { return nameOf(descriptor_.type); }

  /// What this file is registered for already, in any context.
  Qnn_ErrorHandle_t checkOthers() const {
    for (const auto& other : objects().all<Context>()) {
      const ContextMemory& theirs = memoryOf(*other);
      const std::lock_guard<std::mutex> lock(other->mutex);
      for (const auto& [_, mem] : other->memory) {
        if (fileOf(*mem) != descriptor_.file) continue;
        const bool isWeights = mem == theirs.weights.holder, isSpill = mem == theirs.spill.holder;
        if (!isWeights && !isSpill && !descriptor_.isExternal()) continue;
        const QnnHtpMem_Type_t is = isWeights ? QNN_HTP_MEM_WEIGHTS_BUFFER
                                    : isSpill ? QNN_HTP_MEM_SHARED_SPILLFILL_BUFFER
                                              : QNN_HTP_MEM_UNDEFINED;
        if (is != descriptor_.type) {
          logger_.error("file descriptor %d is registered as %s: it cannot be used as %s too", descriptor_.fd, nameOf(is),
                        name());
          return QNN_MEM_ERROR_ALREADY_REGISTERED;
        }
        const std::uint64_t end = mem->request.size, begin = mem->request.offset;
        const bool apart = descriptor_.offset >= end || descriptor_.offset + descriptor_.size <= begin;
        if (isWeights && !apart) {
          logger_.error("these bytes are the external weights buffer of another context: each context has one of its own");
          return QNN_MEM_ERROR_ALREADY_REGISTERED;
        }
        if (isSpill && !apart && descriptor_.offset != begin) {
          logger_.error("this spill-fill buffer overlaps one that begins at another offset");
          return QNN_MEM_ERROR_ALREADY_REGISTERED;
        }
      }
    }
    return QNN_SUCCESS;
  }

  Qnn_ErrorHandle_t checkContext() const {
    if (!shared_.isDeferred) {
      logger_.error("an %s is for contexts that QnnContext_createFromBinary has made with "
                    "QNN_CONTEXT_CONFIG_OPTION_DEFER_GRAPH_INIT", name());
      return QNN_MEM_ERROR_NOT_SUPPORTED;
    }
    if (shared_.conflict != nullptr) {
      logger_.error("an %s does not go together with %s", name(), shared_.conflict);
      return QNN_MEM_ERROR_NOT_SUPPORTED;
    }
    if (shared_.isFinalized) {
      logger_.error("the context is finalized: an %s is registered before that", name());
      return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
    }
    const bool isWeights = descriptor_.type == QNN_HTP_MEM_WEIGHTS_BUFFER;
    if ((isWeights ? shared_.weights : shared_.spill).holder != nullptr) {
      logger_.error("the context has an %s already", name());
      return QNN_MEM_ERROR_ALREADY_REGISTERED;
    }
    return QNN_SUCCESS;
  }

  Qnn_ErrorHandle_t checkPlace() const {
    if (descriptor_.offset % bufferAlignment != 0) {
      logger_.error("an %s begins at a multiple of %zu bytes (BUFFER_START_ALIGNMENT), not at offset %llu", name(),
                    bufferAlignment, static_cast<unsigned long long>(descriptor_.offset));
      return QNN_MEM_ERROR_INVALID_SHAPE;
    }
    const bool isWeights = descriptor_.type == QNN_HTP_MEM_WEIGHTS_BUFFER;
    const std::size_t needs = isWeights ? shared_.weightsRequired : shared_.spillRequired;
    if (descriptor_.size < needs) {
      logger_.error("the %s has %llu bytes, the context needs %zu (%s)", name(),
                    static_cast<unsigned long long>(descriptor_.size), needs,
                    isWeights ? "WEIGHTS_BUFFER_SIZE" : "MAX_SPILLFILL_BUFFER_SIZE");
      return QNN_MEM_ERROR_INVALID_SHAPE;
    }
    return QNN_SUCCESS;
  }

  const std::shared_ptr<Context> context_;
  const ContextMemory& shared_;
  const Descriptor& descriptor_;
  const Logger& logger_;
};

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
  External made;
  made.holder = objects().find<Mem>(handle);
  made.handle = handle;
  made.data = static_cast<unsigned char*>(made.holder->data());
  made.size = descriptor.size;
  const bool isWeights = descriptor.type == QNN_HTP_MEM_WEIGHTS_BUFFER;
  if (!isWeights) made.turn = turnOf(descriptor.file, descriptor.offset);
  (isWeights ? shared.weights : shared.spill) = std::move(made);
}

/// One by one, so that each is compared with those before it; all or none.
Qnn_ErrorHandle_t memRegister(Qnn_ContextHandle_t handle, const Qnn_MemDescriptor_t* what, std::uint32_t count,
                              Qnn_MemHandle_t* made) {
  const auto context = objects().find<Context>(handle);
  if (context == nullptr || what == nullptr || made == nullptr || count == 0) {
    return core.memRegister(handle, what, count, made);
  }
  return guarded([&]() -> Qnn_ErrorHandle_t {
    for (std::uint32_t i = 0; i < count; ++i) made[i] = nullptr;
    for (std::uint32_t i = 0; i < count; ++i) {
      const Descriptor descriptor = read(what[i]);
      Qnn_ErrorHandle_t code = Rules(context, descriptor).check();
      if (code == QNN_SUCCESS) code = core.memRegister(handle, &what[i], 1, &made[i]);
      if (code == QNN_SUCCESS) {
        keep(memoryOf(*context), descriptor, made[i]);
        continue;
      }
      for (; i > 0; --i) {
        core.memDeRegister(&made[i - 1], 1);
        made[i - 1] = nullptr;
      }
      return code;
    }
    return QNN_SUCCESS;
  });
}

Qnn_ErrorHandle_t memDeRegister(const Qnn_MemHandle_t* handles, std::uint32_t count) {
  if (handles == nullptr || count == 0) return QNN_MEM_ERROR_INVALID_ARGUMENT;
  return guarded([&]() -> Qnn_ErrorHandle_t {
    for (std::uint32_t i = 0; i < count; ++i) {
      for (const auto& context : objects().all<Context>()) {
        ContextMemory& shared = memoryOf(*context);
        for (External* const each : {&shared.weights, &shared.spill}) {
          if (each->holder == nullptr || each->handle != handles[i]) continue;
          if (!shared.isFinalized) {
            *each = {};
            continue;
          }
          context->backend->logger.error("the %s is in use by its context, which is finalized: it is deregistered when the "
                                         "context is freed", each == &shared.weights ? "external weights buffer"
                                                                                     : "external spill-fill buffer");
        }
      }
    }
    return core.memDeRegister(handles, count);
  });
}

}  // namespace

void fillBuffers(QnnInterface_ImplementationV2_t& table) {
  table.memRegister = memRegister;
  table.memDeRegister = memDeRegister;
}

}  // namespace emulator
