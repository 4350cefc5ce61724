// No op of the package can lack an input, or a parameter that others follow.

namespace udo {

bool isAbsent(const QHPI_Op*) { return false; }

bool isAbsent(const QHPI_Tensor*) { return false; }

const QHPI_Op* fillInputs(const OpEntry&, const QHPI_Op* node) { return node; }

}  // namespace udo
