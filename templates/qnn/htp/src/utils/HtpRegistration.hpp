// Auto-generated part of every op package that udogen generates for the HTP backend; regenerating rewrites this file.
//
// The ops of a package as HTP wants to know them: tables of kernel records.
#pragma once

#include "HtpHooks.hpp"

namespace udo {

/// One op of the package.
struct OpEntry {
  const OpSpec* spec;
  const char* qualifiedName;  // with the package: Package::Op
  void (*describe)(OpFacts& facts);
};

/// Registers all ops with their kernel records: for each kernel one for each combination of data types, of flat layouts,
/// and of parameters that may be left out at the end.
QHPI_StatusCode registerOps(const char* package, List<OpEntry> ops);

/// What the kernel file says of its op; without `hooks`, or where they name no kernel, `execute` is the one kernel.
template <class Op, Status (*Execute)(const typename Op::Args&)>
void describe(OpFacts& facts, void (*hooks)(Hooks<Op>&)) {
  Hooks<Op> op(facts);
  if (hooks != nullptr) hooks(op);
  if (facts.kernelCount == 0) op.template kernel<Execute>();
}

}  // namespace udo
