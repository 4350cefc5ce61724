#include "mem.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "HTP/QnnHtpMem.h"
#include "calls.hpp"

namespace emulator {
namespace {

/// Reads a descriptor: those that all backends have, and the engine's own.
Qnn_ErrorHandle_t read(const Backend& backend, const Qnn_MemDescriptor_t& from, MemRequest& request) {
  switch (from.memType) {
    case QNN_MEM_TYPE_ION: request.fd = from.ionInfo.fd; return QNN_SUCCESS;
    case QNN_MEM_TYPE_DMA_BUF:
      if (from.dmaBufInfo.data == nullptr) {
        backend.logger.error("a DMA buffer is registered with the address at which its client has mapped it");
        return QNN_MEM_ERROR_INVALID_ARGUMENT;
      }
      request.fd = from.dmaBufInfo.fd;
      return QNN_SUCCESS;
    case QNN_MEM_TYPE_CUSTOM:
      if (from.customInfo == nullptr) return QNN_MEM_ERROR_INVALID_ARGUMENT;
      return backend.engine->readMemory(from.customInfo, request, backend.logger);
    default:
      backend.logger.error("memory of the type %d is not known", static_cast<int>(from.memType));
      return QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE;
  }
}

bool isSameFile(const Mem& a, const Mem& b) {
  return a.request.fd == b.request.fd && a.file[0] == b.file[0] && a.file[1] == b.file[1];
}

/// One descriptor and one handle, or one descriptor and one handle for each offset.
Qnn_ErrorHandle_t checkAlone(const Context& context, const Mem& wanted) {
  for (const auto& [_, other] : context.memory) {
    if (!isSameFile(*other, wanted)) continue;
    if (wanted.request.isShared && other->request.isShared && wanted.request.offset != other->request.offset) continue;
    context.backend->logger.error("file descriptor %d is registered already%s", wanted.request.fd,
                                  wanted.request.isShared && other->request.isShared ? " at this offset" : "");
    return QNN_MEM_ERROR_ALREADY_REGISTERED;
  }
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t memRegister(Qnn_ContextHandle_t handle, const Qnn_MemDescriptor_t* what, std::uint32_t count,
                              Qnn_MemHandle_t* made) {
  if (made == nullptr) return QNN_MEM_ERROR_INVALID_ARGUMENT;
  for (std::uint32_t i = 0; i < count; ++i) made[i] = nullptr;
  if (what == nullptr || count == 0) return QNN_MEM_ERROR_INVALID_ARGUMENT;
  return with<Context>(handle, QNN_MEM_ERROR_INVALID_HANDLE, [&](const auto& context) -> Qnn_ErrorHandle_t {
    const std::lock_guard<std::mutex> lock(context->mutex);
    Qnn_ErrorHandle_t code = QNN_SUCCESS;
    std::uint32_t done = 0;
    for (; done < count && code == QNN_SUCCESS; ++done) {
      MemRequest request;
      std::shared_ptr<Mem> mem;
      code = read(*context->backend, what[done], request);
      if (code == QNN_SUCCESS) code = Mem::map(what[done], request, context->backend->logger, mem);
      if (code == QNN_SUCCESS) code = checkAlone(*context, *mem);
      if (code != QNN_SUCCESS) break;
      mem->context = context;
      made[done] = objects().add(mem);
      context->memory.emplace(made[done], std::move(mem));
    }
    if (code == QNN_SUCCESS) return code;
    while (done-- > 0) {  // all or none
      objects().take<Mem>(made[done]);
      context->memory.erase(made[done]);
      made[done] = nullptr;
    }
    return code;
  });
}

Qnn_ErrorHandle_t letGo(Qnn_MemHandle_t handle) {
  const auto mem = objects().find<Mem>(handle);
  if (mem == nullptr) return QNN_MEM_ERROR_INVALID_HANDLE;
  const auto context = mem->context.lock();
  if (mem->uses != 0) {
    if (context != nullptr) context->backend->logger.error("memory of file descriptor %d is in use", mem->request.fd);
    return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  }
  if (objects().take<Mem>(handle) == nullptr) return QNN_MEM_ERROR_INVALID_HANDLE;
  if (context == nullptr) return QNN_SUCCESS;
  const std::lock_guard<std::mutex> lock(context->mutex);
  context->memory.erase(handle);
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t memDeRegister(const Qnn_MemHandle_t* handles, std::uint32_t count) {
  if (handles == nullptr || count == 0) return QNN_MEM_ERROR_INVALID_ARGUMENT;
  return guarded([&]() -> Qnn_ErrorHandle_t {
    Qnn_ErrorHandle_t status = QNN_SUCCESS;
    for (std::uint32_t i = 0; i < count; ++i) {  // those that can be are released, even if others cannot
      const Qnn_ErrorHandle_t code = letGo(handles[i]);
      if (code != QNN_SUCCESS) status = code;
    }
    return status;
  });
}

}  // namespace

Mem::~Mem() {
  if (mapped != nullptr) munmap(mapped, length);
}

Qnn_ErrorHandle_t Mem::map(const Qnn_MemDescriptor_t& from, const MemRequest& request, const Logger& logger,
                           std::shared_ptr<Mem>& made) {
  auto mem = std::make_shared<Mem>();
  mem->request = request;
  mem->type = from.memType;
  if (request.hasTensor) {
    mem->dataType = from.dataType;
    const Qnn_MemShape_t& shape = from.memShape;
    if (bitsOf(from.dataType) == 0 || shape.numDim == 0 || shape.dimSize == nullptr) {
      logger.error("memory is registered with the shape and the data type of its tensor");
      return QNN_MEM_ERROR_INVALID_ARGUMENT;
    }
    if (shape.shapeConfig != nullptr) {
      logger.error("memory with a shape config (`%s`) is not emulated", shape.shapeConfig);
      return QNN_MEM_ERROR_INVALID_SHAPE;
    }
    std::uint64_t elements = 1;
    for (std::uint32_t i = 0; i < shape.numDim; ++i) {
      if (shape.dimSize[i] == 0 || __builtin_mul_overflow(elements, std::uint64_t{shape.dimSize[i]}, &elements) ||
          elements > (1ull << 40)) {
        logger.error("memory cannot have this shape: dimension %u is %u", i, shape.dimSize[i]);
        return QNN_MEM_ERROR_INVALID_SHAPE;
      }
    }
    mem->bytes = static_cast<std::size_t>((elements * bitsOf(from.dataType) + 7) / 8);
  }
  struct stat found = {};
  if (request.fd < 0 || fstat(request.fd, &found) != 0) {
    logger.error("file descriptor %d is invalid: %s", request.fd, std::strerror(request.fd < 0 ? EBADF : errno));
    return QNN_MEM_ERROR_MAPPING;
  }
  mem->file[0] = found.st_dev;
  mem->file[1] = found.st_ino;
  std::uint64_t needs = 0;
  const bool overflows = __builtin_add_overflow(request.offset, std::uint64_t{mem->bytes}, &needs);
  if (request.size != 0 && (overflows || needs > request.size)) {
    logger.error("a tensor of %zu bytes at offset %llu does not fit into memory of %llu bytes", mem->bytes,
                 static_cast<unsigned long long>(request.offset), static_cast<unsigned long long>(request.size));
    return QNN_MEM_ERROR_INVALID_SHAPE;
  }
  if (request.size > needs) needs = request.size;
  if (overflows || needs == 0 || needs > static_cast<std::uint64_t>(found.st_size)) {
    logger.error("file descriptor %d has %lld bytes, %llu were to be mapped", request.fd,
                 static_cast<long long>(found.st_size), static_cast<unsigned long long>(needs));
    return QNN_MEM_ERROR_MAPPING;
  }
  void* const mapped = mmap(nullptr, needs, PROT_READ | PROT_WRITE, MAP_SHARED, request.fd, 0);
  if (mapped == MAP_FAILED) {
    logger.error("file descriptor %d cannot be mapped: %s", request.fd, std::strerror(errno));
    return QNN_MEM_ERROR_MAPPING;
  }
  mem->mapped = mapped;
  mem->length = needs;
  made = std::move(mem);
  return QNN_SUCCESS;
}

/// Many tensors in one buffer; what the public headers have for it is HTP's, and no backend has another.
Qnn_ErrorHandle_t Engine::readMemory(Qnn_MemInfoCustom_t info, MemRequest& request, const Logger& logger) const {
  const auto& given = *static_cast<const QnnMemHtp_Descriptor_t*>(info);
  if (given.type != QNN_HTP_MEM_SHARED_BUFFER) {
    logger.error("custom memory of the type %d is not emulated for this backend", static_cast<int>(given.type));
    return QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE;
  }
  if (given.size == 0) {
    logger.error("a shared buffer is registered with its whole size");
    return QNN_MEM_ERROR_INVALID_ARGUMENT;
  }
  request.fd = given.sharedBufferConfig.fd;
  request.offset = given.sharedBufferConfig.offset;
  request.size = given.size;
  request.isShared = true;
  return QNN_SUCCESS;
}

void fillMem(QnnInterface_ImplementationV2_t& table) {
  table.memRegister = memRegister;
  table.memDeRegister = memDeRegister;
}

}  // namespace emulator
