// Contexts that are made in two steps, so that the client can give memory to them in between.
#include "HTP/QnnHtpContext.h"
#include "context_memory.hpp"

namespace emulator {
namespace {

/// What a list of configs asks for that the core does not know, and the rest of it.
struct ContextOptions {
  bool isDeferred = false, sharesWeights = false;
  const char* conflict = nullptr;  // an option that does not go together with external buffers
  std::vector<const QnnContext_Config_t*> others;

  Qnn_ErrorHandle_t read(const QnnContext_Config_t** config, const Logger& logger) {
    for (; config != nullptr && *config != nullptr; ++config) {
      const QnnContext_Config_t& each = **config;
      switch (each.option) {
        case QNN_CONTEXT_CONFIG_OPTION_DEFER_GRAPH_INIT: isDeferred = each.isGraphInitDeferred != 0; break;
        case QNN_CONTEXT_CONFIG_MEMORY_LIMIT_HINT:
        case QNN_CONTEXT_CONFIG_GRAPH_RETENTION_ORDER: conflict = "graph switching"; break;
        case QNN_CONTEXT_CONFIG_PERSISTENT_BINARY:
          if (each.isPersistentBinary != 0) conflict = "graph switching";
          others.push_back(*config);
          break;
        case QNN_CONTEXT_CONFIG_OPTION_CUSTOM: {
          if (each.customConfig == nullptr) return QNN_CONTEXT_ERROR_INVALID_CONFIG;
          const Qnn_ErrorHandle_t code = readOwn(*static_cast<const QnnHtpContext_CustomConfig_t*>(each.customConfig), logger);
          if (code != QNN_SUCCESS) return code;
          break;
        }
        default: others.push_back(*config);
      }
    }
    others.push_back(nullptr);
    return QNN_SUCCESS;
  }

 private:
  Qnn_ErrorHandle_t readOwn(const QnnHtpContext_CustomConfig_t& given, const Logger& logger) {
    switch (given.option) {
      case QNN_HTP_CONTEXT_CONFIG_OPTION_WEIGHT_SHARING_ENABLED:
        sharesWeights = given.weightSharingEnabled != 0;
        return QNN_SUCCESS;
      case QNN_HTP_CONTEXT_CONFIG_OPTION_REGISTER_MULTI_CONTEXTS:
        conflict = "QNN_HTP_CONTEXT_CONFIG_OPTION_REGISTER_MULTI_CONTEXTS";
        return QNN_SUCCESS;
      case QNN_HTP_CONTEXT_CONFIG_OPTION_REGISTER_CONCURRENT_RESOURCE_SHARING:
        conflict = "QNN_HTP_CONTEXT_CONFIG_OPTION_REGISTER_CONCURRENT_RESOURCE_SHARING";
        return QNN_SUCCESS;
      case QNN_HTP_CONTEXT_CONFIG_OPTION_USE_EXTENDED_UDMA:
        if (given.useExtendedUdma != 0) conflict = "QNN_HTP_CONTEXT_CONFIG_OPTION_USE_EXTENDED_UDMA (udma64)";
        return QNN_SUCCESS;
      default: break;
    }
    if (given.option >= QNN_HTP_CONTEXT_CONFIG_OPTION_WEIGHT_SHARING_ENABLED &&
        given.option <= QNN_HTP_CONTEXT_CONFIG_OPTION_CONCURRENT_DESERIALIZATION_PATCH) {
      return QNN_SUCCESS;
    }
    logger.error("HTP has no context option %d", static_cast<int>(given.option));
    return QNN_CONTEXT_ERROR_INVALID_CONFIG;
  }
};

Qnn_ErrorHandle_t contextCreate(Qnn_BackendHandle_t handle, Qnn_DeviceHandle_t device,
                                const QnnContext_Config_t** config, Qnn_ContextHandle_t* made) {
  return with<Backend>(handle, QNN_CONTEXT_ERROR_INVALID_HANDLE, [&](const auto& backend) -> Qnn_ErrorHandle_t {
    ContextOptions options;
    Qnn_ErrorHandle_t code = options.read(config, backend->logger);
    if (code != QNN_SUCCESS) return code;
    if (options.isDeferred) {
      backend->logger.error("QNN_CONTEXT_CONFIG_OPTION_DEFER_GRAPH_INIT is for contexts that are created from a binary");
      return QNN_CONTEXT_ERROR_INVALID_CONFIG;
    }
    code = core.contextCreate(handle, device, options.others.data(), made);
    if (code != QNN_SUCCESS) return code;
    const auto context = objects().find<Context>(*made);
    context->sharesWeights = options.sharesWeights;
    memoryOf(*context).conflict = options.conflict;
    return code;
  });
}

/// The sizes that a context needs: it is restored once for that, and freed.
Qnn_ErrorHandle_t measure(Qnn_BackendHandle_t backend, ContextMemory& shared) {
  Qnn_ContextHandle_t trial = nullptr;
  Qnn_ErrorHandle_t code = core.contextCreate(backend, nullptr, nullptr, &trial);
  if (code != QNN_SUCCESS) return code;
  {
    const auto context = objects().find<Context>(trial);
    ContextMemory& own = memoryOf(*context);
    code = restore(shared.binary, shared.binarySize, context);
    shared.weightsRequired = own.weightsSize();
    shared.spillRequired = own.spillSize();
  }
  core.contextFree(trial, nullptr);
  return code;
}

Qnn_ErrorHandle_t contextCreateFromBinary(Qnn_BackendHandle_t handle, Qnn_DeviceHandle_t device,
                                          const QnnContext_Config_t** config, const void* binary,
                                          Qnn_ContextBinarySize_t size, Qnn_ContextHandle_t* made,
                                          Qnn_ProfileHandle_t profile) {
  if (binary == nullptr || made == nullptr || size == 0) return QNN_CONTEXT_ERROR_INVALID_ARGUMENT;
  return with<Backend>(handle, QNN_CONTEXT_ERROR_INVALID_HANDLE, [&](const auto& backend) -> Qnn_ErrorHandle_t {
    std::shared_ptr<Profile> measures;
    if (!findProfile(profile, measures)) return QNN_CONTEXT_ERROR_SET_PROFILE;
    ContextOptions options;
    Qnn_ErrorHandle_t code = options.read(config, backend->logger);
    if (code == QNN_SUCCESS) code = checkBinary(binary, size, backend->logger);
    Qnn_ContextHandle_t context = nullptr;
    if (code == QNN_SUCCESS) code = core.contextCreate(handle, device, options.others.data(), &context);
    if (code != QNN_SUCCESS) return code;
    {
      const auto found = objects().find<Context>(context);
      ContextMemory& shared = memoryOf(*found);
      shared.conflict = options.conflict;
      shared.isDeferred = options.isDeferred;
      shared.binary = binary;
      shared.binarySize = size;
      const auto chosen = std::static_pointer_cast<HtpDevice>(objects().find<Device>(device));
      const auto domain = chosen == nullptr ? domainOf(0) : chosen->domain;
      if (!shared.mapping.begin(domain, size, backend->logger)) {
        code = QNN_CONTEXT_ERROR_MEM_ALLOC;
      } else {
        code = options.isDeferred ? measure(handle, shared) : restore(binary, size, found);
      }
    }
    if (code != QNN_SUCCESS) {
      core.contextFree(context, nullptr);
      return code;
    }
    *made = context;
    return code;
  });
}

Qnn_ErrorHandle_t contextFinalize(Qnn_ContextHandle_t handle, Qnn_ProfileHandle_t profile) {
  return with<Context>(handle, QNN_CONTEXT_ERROR_INVALID_HANDLE, [&](const auto& context) -> Qnn_ErrorHandle_t {
    std::shared_ptr<Profile> measures;
    if (!findProfile(profile, measures)) return QNN_CONTEXT_ERROR_SET_PROFILE;
    ContextMemory& shared = memoryOf(*context);
    const Logger& logger = context->backend->logger;
    if (!shared.isDeferred || shared.isFinalized) {
      logger.error(shared.isFinalized ? "the context is finalized already"
                                      : "only a context that was created from a binary with "
                                        "QNN_CONTEXT_CONFIG_OPTION_DEFER_GRAPH_INIT is finalized");
      return QNN_CONTEXT_ERROR_INVALID_ARGUMENT;
    }
    const Qnn_ErrorHandle_t code = restore(shared.binary, shared.binarySize, context);
    if (code != QNN_SUCCESS) return code;
    shared.isFinalized = true;
    for (External* const each : {&shared.weights, &shared.spill}) {
      if (each->holder != nullptr) ++each->holder->uses;  // it stays registered until the context is freed
    }
    return QNN_SUCCESS;
  });
}

}  // namespace

void fillContexts(QnnInterface_ImplementationV2_t& table) {
  table.contextCreate = contextCreate;
  table.contextCreateFromBinary = contextCreateFromBinary;
  table.contextFinalize = contextFinalize;
}

}  // namespace emulator
