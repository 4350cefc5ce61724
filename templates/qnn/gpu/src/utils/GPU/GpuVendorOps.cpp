// Auto-generated part of every op package with kernels in Qualcomm's style; regenerating rewrites this file.
#include "GPU/GpuVendorOps.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "Operation.hpp"
#include "Validation.hpp"

namespace udo {
namespace {

// The operations that the backend holds, with their owners.
std::mutex madeMutex;
std::map<const QnnGpu_Operation_t*, std::shared_ptr<::Operation>>& made() {
  static std::map<const QnnGpu_Operation_t*, std::shared_ptr<::Operation>> all;
  return all;
}

/// A node whose parameters are in the order of their names.
class SortedNode {
 public:
  explicit SortedNode(const QnnGpuOpPackage_Node_t& node) : node_(node), config_(*node.configs[0]) {
    if (config_.v1.numOfParams != 0) params_.assign(config_.v1.params, config_.v1.params + config_.v1.numOfParams);
    std::sort(params_.begin(), params_.end(),
              [](const Qnn_Param_t& a, const Qnn_Param_t& b) { return std::strcmp(a.name, b.name) < 0; });
    config_.v1.params = params_.data();
    node_.configs = configs_;
  }
  const QnnGpuOpPackage_Node_t& node() const { return node_; }

 private:
  QnnGpuOpPackage_Node_t node_;
  Qnn_OpConfig_t config_;
  std::vector<Qnn_Param_t> params_;
  const Qnn_OpConfig_t* configs_[2] = {&config_, nullptr};
};

}  // namespace

Qnn_ErrorHandle_t initialize(QnnOpPackage_GlobalInfrastructure_t) { return executions.begin(); }

Qnn_ErrorHandle_t terminate() { return executions.end(); }

QnnOpPackage_Info_t withoutHash(QnnOpPackage_Info_t package) {
  static const QnnGpuOpPackage_PackageInfo_t gpuInfo = {""};
  package.packageInfo = &gpuInfo;
  return package;
}

Qnn_ErrorHandle_t validateOpConfig(Qnn_OpConfig_t given) {
  if (given.version != QNN_OPCONFIG_VERSION_1) return QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE;
  const OpEntry* const entry = find(tables.ops, given.v1.typeName);
  if (entry == nullptr) return noSuchOp(tables.info, given.v1.typeName);
  return validateConfig(*entry, given.v1, rulesOfGpu());
}

Qnn_ErrorHandle_t createOpImpl(QnnOpPackage_GraphInfrastructure_t, QnnOpPackage_Node_t given, QnnOpPackage_OpImpl_t* impl) {
  if (given == nullptr || impl == nullptr) return QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT;
  const auto& node = *reinterpret_cast<const QnnGpuOpPackage_Node_t*>(given);
  if (node.configs == nullptr || node.configs[0] == nullptr) return QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT;
  Status status = validateOpConfig(*node.configs[0]);
  if (status != ok) return status;
  const OpEntry& entry = *find(tables.ops, node.configs[0]->v1.typeName);
  const Running running(entry.name);
  std::shared_ptr<::Operation> operation;
  const Status thrown = guarded([&] {
    operation = entry.create(sortsParams ? &SortedNode(node).node() : &node, &status);
    return ok;
  });
  if (thrown != ok) status = thrown;
  if (status != ok) return error("its constructor returned %llu", static_cast<unsigned long long>(status));
  if (operation == nullptr) return error("out of memory");
  QnnGpu_Operation_t* info = operation->getOperationInfo();
  if (info->kernels == nullptr) return error("its constructor added no kernel (ADD_KERNEL)");
  const std::lock_guard<std::mutex> lock(madeMutex);
  made()[info] = std::move(operation);
  ++*entry.nodes;
  *impl = reinterpret_cast<QnnOpPackage_OpImpl_t>(info);
  return ok;
}

Qnn_ErrorHandle_t freeOpImpl(QnnOpPackage_OpImpl_t impl) {
  const std::lock_guard<std::mutex> lock(madeMutex);
  const bool known = made().erase(reinterpret_cast<const QnnGpu_Operation_t*>(impl)) != 0;
  return known ? QNN_SUCCESS : QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT;
}

}  // namespace udo
