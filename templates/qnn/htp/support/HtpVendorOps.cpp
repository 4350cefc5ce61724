// The functions of the QNN op package interface, and the registration of ops that the kernels' sources register.

#if !defined(__hexagon__)  // graphs are prepared on the host
#include <map>
#include <string>
#endif

#undef qhpi_register_ops_v1

namespace udo {
#if !defined(__hexagon__)
namespace {

std::map<std::string, QHPI_RewriteOpFunc>& ownRewrites() {
  static std::map<std::string, QHPI_RewriteOpFunc> all;
  return all;
}

// The op's own rewrite is called once the parameters are complete: HTP calls this function again for a node it returns.
const QHPI_Op* rewriteEarly(const QHPI_Op* op) {
  const QHPI_Op* const complete = orderParameters(*findOp(qhpi_op_name(op)), op, true);
  const QHPI_RewriteOpFunc own = ownRewrites()[qhpi_op_name(op)];
  return complete != op || own == nullptr ? complete : own(op);
}

}  // namespace
#endif

Qnn_ErrorHandle_t initialize(QnnOpPackage_GlobalInfrastructure_t) {
  showErrors();
  beginSession();
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t terminate() { return QNN_SUCCESS; }

Qnn_ErrorHandle_t createOpImpl(QnnOpPackage_GraphInfrastructure_t, QnnOpPackage_Node_t, QnnOpPackage_OpImpl_t*) {
  return QNN_OP_PACKAGE_ERROR_UNSUPPORTED_FEATURE;  // HTP makes its ops from the kernels that qhpi_init registers
}

Qnn_ErrorHandle_t freeOpImpl(QnnOpPackage_OpImpl_t) { return QNN_OP_PACKAGE_ERROR_UNSUPPORTED_FEATURE; }

}  // namespace udo

extern "C" QHPI_StatusCode udo_register_ops_v1(uint32_t count, QHPI_OpInfo_v1* ops, const char* package) {
#if !defined(__hexagon__)
  for (uint32_t i = 0; i < count; ++i) {
    const udo::OpEntry* const entry = udo::findOp(ops[i].name);
    if (entry == nullptr || entry->spec->params.count == 0 || ops[i].early_rewrite == udo::rewriteEarly) continue;
    udo::ownRewrites()[ops[i].name] = ops[i].early_rewrite;
    ops[i].early_rewrite = udo::rewriteEarly;
  }
#endif
  return qhpi_register_ops_v1(count, ops, package);
}
