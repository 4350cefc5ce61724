// Auto-generated part of every op package that udogen generates for the HTP backend; regenerating rewrites this file.
//
// The ops of a package as HTP wants to know them: tables of kernel records.
#pragma once

#include "HtpHooks.hpp"
#include "HtpParameters.hpp"

namespace udo {

/// Registers all ops with their kernel records: for each kernel one for each combination of data types, of flat layouts,
/// and of parameters that may be left out at the end.  Before an early rewrite of the op's own, parameters are put in
/// the order of the config.
QHPI_StatusCode registerOps(const char* package, List<OpEntry> ops);

}  // namespace udo
