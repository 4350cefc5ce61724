// No op of the package has several parameters, so their order is known.

namespace udo {

void rememberParameters(const OpSpec&, const Qnn_OpConfigV1_t&) {}

void beginSession() {}

const QHPI_Op* orderParameters([[maybe_unused]] const OpEntry& op, const QHPI_Op* node, bool) {
#ifdef UDO_PREPARES
  const OpSpec& spec = *op.spec;
  const auto inputs = static_cast<std::uint32_t>(spec.inputs.count);
  if (spec.params.count == 1 && qhpi_op_num_inputs(node) == inputs + 1 &&
      !isOfParam(spec.params.items[0], qhpi_op_input(node, inputs))) {
    return refuseParameter(spec, 0, node);
  }
#endif
  return node;
}

}  // namespace udo
