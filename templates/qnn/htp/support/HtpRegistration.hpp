// A package in the form that HTP needs: its ops as kernel records, and the functions of the QNN op package interface.

namespace udo {

// Registers all ops with their kernel records: for each kernel one for each combination of data types, of flat layouts,
// and of parameters that may be left out at the end.  Before the op's own early rewrite, parameters are put in the
// order of the config.
QHPI_StatusCode registerOps();

}  // namespace udo
