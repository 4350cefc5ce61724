// Finds parameters by their names.  An HTP kernel gets them without names, as additional inputs, in the order in which
// the client passed them; the names are known only when the client validates the node.  So validation remembers the
// order and the values of a node's parameters, and an early rewrite finds the nodes of a graph by these values and puts
// their parameters in the order of the config.

namespace udo {

// One op of the package.
struct OpEntry {
  const OpSpec* spec;
  const char* qualifiedName;  // with the package: Package::Op
  void (*describe)(OpFacts& facts);
};

// An op of the package by its name (Package::Op); null if it has no such op.
const OpEntry* findOp(const char* qualifiedName);

// Whether the order of its parameters can differ from that of the config.
inline bool hasOrder(const OpSpec& spec) { return spec.params.count > 1; }

// How many inputs and parameters a node of an op may have, with the one that marks the parameters as ordered.
inline std::size_t mostInputs(const OpSpec& spec) {
  return spec.inputs.count + spec.params.count + (hasOrder(spec) ? 1 : 0);
}

// Remembers the order of a valid node's parameters.
void rememberParameters(const OpSpec& spec, const Qnn_OpConfigV1_t& node);

// Called when a client registers the package: from now on, nodes that this thread validated and used before are second
// choice.
void beginSession();

// Whether a node may have fewer inputs than the config: the last ones are optional.
inline bool canEnd(const OpSpec& spec) { return fewestOf(spec.inputs) < spec.inputs.count; }

// The node, or a new one, with all inputs of the config; missing ones at the end are marked as absent.
const QHPI_Op* fillInputs(const OpEntry& op, const QHPI_Op* node);

// The node, or a new one, with its parameters in the order of the config; or an error, with the reason.  `all`: with
// defaults for those that were left out, for a kernel in Qualcomm's style.
const QHPI_Op* orderParameters(const OpEntry& op, const QHPI_Op* node, bool all = false);

// Whether this constant replaces an input or a parameter that was left out.  After the last parameter of a node it
// means that the parameters are in the order of the config.
bool isAbsent(const QHPI_Op* node);
bool isAbsent(const QHPI_Tensor* tensor);

}  // namespace udo
