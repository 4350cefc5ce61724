#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "Operation.hpp"

namespace udo {
namespace {

// The operations that the backend holds, with their owners.
std::mutex madeMutex;
std::map<const QnnGpu_Operation_t*, std::shared_ptr<::Operation>>& made() {
  static std::map<const QnnGpu_Operation_t*, std::shared_ptr<::Operation>> all;
  return all;
}

Qnn_Param_t paramOf(const ParamSpec& spec, const ParamDefault& value) {
  Qnn_Param_t param = {};
  param.name = spec.name;
  if (value.type == textType) {
    param.scalarParam.dataType = textType;
    param.scalarParam.stringValue = static_cast<const char*>(value.data);
  } else if (spec.scalar) {
    param.scalarParam.dataType = value.type;
    std::memcpy(&param.scalarParam.int64Value, value.data, value.bytes);
  } else {
    param.paramType = QNN_PARAMTYPE_TENSOR;
    param.tensorParam.version = QNN_TENSOR_VERSION_1;
    Qnn_TensorV1_t& tensor = param.tensorParam.v1;
    tensor.name = spec.name;
    tensor.type = QNN_TENSOR_TYPE_STATIC;
    tensor.dataType = value.type;
    tensor.quantizeParams.encodingDefinition = QNN_DEFINITION_UNDEFINED;
    tensor.quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_UNDEFINED;
    tensor.rank = static_cast<std::uint32_t>(value.dims.count);
    tensor.dimensions = const_cast<std::uint32_t*>(value.dims.items);
    tensor.clientBuf = {const_cast<void*>(value.data), value.bytes};
  }
  return param;
}

// A node with all parameters.
class CompleteNode {
 public:
  CompleteNode(const OpSpec& spec, const QnnGpuOpPackage_Node_t& node)
      : node_(node), config_(*node.configs[0]), params_(spec.params.count) {
    const List<Qnn_Param_t> given(config_.v1.params, config_.v1.numOfParams);
    missing_ = completeParams(spec, sortsParams, [&](std::size_t at, const ParamSpec& param, const ParamDefault* value) {
      const Qnn_Param_t* const found = find(given, param.name);
      if (found != nullptr) params_[at] = *found;
      else if (value != nullptr) params_[at] = paramOf(param, *value);
      return found != nullptr || value != nullptr;
    });
    config_.v1.params = params_.data();
    config_.v1.numOfParams = static_cast<std::uint32_t>(params_.size());
    node_.configs = configs_;
  }
  const QnnGpuOpPackage_Node_t& node() const { return node_; }
  const char* missing() const { return missing_; }

 private:
  QnnGpuOpPackage_Node_t node_;
  Qnn_OpConfig_t config_;
  std::vector<Qnn_Param_t> params_;
  const char* missing_;
  const Qnn_OpConfig_t* configs_[2] = {&config_, nullptr};
};

}  // namespace

// The backend chooses between floats of 16 and of 32 bits.
const ValidationRules rules = {[](Qnn_DataType_t given, Qnn_DataType_t named) { return isFloat(given) && isFloat(named); }};

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
  return validateConfig(*entry, given.v1, rules);
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
  const CompleteNode complete(entry, node);
  if (complete.missing() != nullptr) return isMissing(complete.missing());
  const Status thrown = guarded([&] {
    operation = entry.create(&complete.node(), &status);
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
