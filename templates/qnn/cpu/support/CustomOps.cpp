#include <cstring>
#include <deque>
#include <memory>
#include <utility>

#include "CustomOpPackage.hpp"

namespace qnn {
namespace custom {
namespace {

// Sources of kernels are initialized in any order; this pointer needs no dynamic initialization.
const OpRegistrationReceiver* firstReceiver = nullptr;

}  // namespace

OpRegistrationReceiver::OpRegistrationReceiver(const char* op, CustomOpRegistrationFunction_t function)
    : op_(op), function_(function), next_(firstReceiver) {
  firstReceiver = this;
}

const CustomOpRegistration_t* OpRegistrationReceiver::find(const char* op) {
  for (const OpRegistrationReceiver* each = firstReceiver; each != nullptr; each = each->next_) {
    if (std::strcmp(each->op_, op) == 0) return each->function_();
  }
  return nullptr;
}

}  // namespace custom
}  // namespace qnn

namespace udo {
namespace {

using qnn::custom::CustomOpRegistration_t;
using qnn::custom::OpRegistrationReceiver;
using qnn::custom::utils::CustomOp;

struct CustomInstance : Instance {
  NodeFacts facts;  // of validation, with the counts that the runtime leaves uninitialized
  QnnCpuOpPackage_Node_t node;
  CustomOp op;
  const CustomOpRegistration_t* functions = nullptr;

  std::vector<QnnCpuOpPackage_Param_t*> params;  // all of the config; null for one that is missing
  std::deque<std::pair<QnnCpuOpPackage_Param_t, RawTensor>> defaults;
  const char* missing;

  CustomInstance(const OpSpec& spec, const QnnCpuOpPackage_Node_t& given, NodeFacts seen)
      : facts(std::move(seen)), node(given), op(given.name, given.typeName), params(spec.params.count) {
    missing = completeParams(spec, sortsParams, [&](std::size_t at, const ParamSpec& param, const ParamDefault* value) {
      for (std::size_t i = 0; i < facts.params.size(); ++i) {
        if (std::strcmp(given.params[i]->name, param.name) == 0) params[at] = given.params[i];
      }
      if (params[at] == nullptr && value != nullptr) params[at] = addDefault(param, *value);
      return params[at] != nullptr;
    });
    node.numOfInputs = static_cast<std::uint32_t>(facts.inputs.size());
    node.numOfOutputs = static_cast<std::uint32_t>(facts.outputs.size());
    node.numOfParams = static_cast<std::uint32_t>(params.size());
    node.params = params.data();
  }

  QnnCpuOpPackage_Param_t* addDefault(const ParamSpec& spec, const ParamDefault& value) {
    defaults.push_back({{}, defaultTensor(value.type, value.data, value.dims.items, static_cast<std::uint32_t>(value.dims.count))});
    auto& [param, tensor] = defaults.back();
    param.name = spec.name;
    param.type = value.type == textType ? QNN_CPU_PARAMTYPE_STRING
                 : spec.scalar ? QNN_CPU_PARAMTYPE_SCALAR : QNN_CPU_PARAMTYPE_TENSOR;
    if (param.type == QNN_CPU_PARAMTYPE_STRING) param.string = static_cast<const char*>(value.data);
    if (param.type == QNN_CPU_PARAMTYPE_SCALAR) param.scalarParam = *static_cast<const double*>(value.data);
    if (param.type == QNN_CPU_PARAMTYPE_TENSOR) param.tensorParam = &tensor;
    return &param;
  }
};

Status run(void* userData) {
  auto* self = static_cast<CustomInstance*>(static_cast<Instance*>(userData));
  const Running running(self->entry->name);
  ++*self->entry->executions;
  const Status status = guarded([&] { return self->functions->execute(&self->op); });
  if (status != ok) log(QNN_LOG_LEVEL_ERROR, "execute returned %llu", static_cast<unsigned long long>(status));
  return status;
}

void release(Instance* instance) {
  auto* self = static_cast<CustomInstance*>(instance);
  const Running running(self->entry->name);
  if (self->functions->free != nullptr) {
    guarded([&] { return self->functions->free(self->op); });
  }
  delete self;
}

Status notRegistered(const char* op) { return error("no source of the package has a REGISTER_OP for it: %s", op); }

Status create(const OpEntry& entry, const QnnCpuOpPackage_Node_t& node, NodeFacts facts, Instance*& instance) {
  const Running running(entry.name);
  const CustomOpRegistration_t* functions = OpRegistrationReceiver::find(entry.name);
  if (functions == nullptr) return notRegistered(entry.name);
  std::unique_ptr<CustomInstance> made;
  const Status status = guarded([&] {
    made = std::make_unique<CustomInstance>(entry, node, std::move(facts));
    return functions->initialize(reinterpret_cast<QnnOpPackage_Node_t>(&made->node), nullptr, &made->op);
  });
  if (status != ok) {
    const auto code = static_cast<unsigned long long>(status);
    if (made == nullptr || made->missing == nullptr) return error("populateFromNode returned %llu", code);
    return error("populateFromNode returned %llu; parameter `%s` is missing and has no default", code, made->missing);
  }
  if (functions->finalize != nullptr) {
    // Qualcomm's own support sources never call it, so kernels whose finalize fails run there.
    const Status finalized = guarded([&] { return functions->finalize(&made->op); });
    if (finalized != ok) {
      log(QNN_LOG_LEVEL_WARN, "finalize of %s returned %llu; it runs all the same", entry.name,
          static_cast<unsigned long long>(finalized));
    }
  }
  made->entry = &entry;
  made->functions = functions;
  made->release = release;
  made->impl = {run, static_cast<Instance*>(made.get())};
  instance = made.release();
  return ok;
}

QnnOpPackage_ValidateOpConfigFn_t validateAsConfigured = nullptr;

Qnn_ErrorHandle_t validate(Qnn_OpConfig_t config) {
  Status status = validateAsConfigured(config);
  if (status != ok) return status;
  const CustomOpRegistration_t* functions = OpRegistrationReceiver::find(config.v1.typeName);
  if (functions == nullptr || functions->validateOpConfig == nullptr) return ok;  // a kernel in another style
  const Running running(config.v1.typeName);
  status = guarded([&] { return functions->validateOpConfig(config); });
  if (status != ok) log(QNN_LOG_LEVEL_ERROR, "validateOpConfig returned %llu", static_cast<unsigned long long>(status));
  return status;
}

}  // namespace

void describeCustomOp(OpFacts& facts) { facts.create = create; }

void fillCustomInterface(QnnOpPackage_Interface_t& table) {
  fillInterface(table);
  validateAsConfigured = table.v1_4.validateOpConfig;
  table.v1_4.validateOpConfig = validate;
}

}  // namespace udo
