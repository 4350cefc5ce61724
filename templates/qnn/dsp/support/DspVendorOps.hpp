// Connects the DSP's functions with an op whose kernel is in Qualcomm's style (DspOps.hpp).

#include "DspOps.hpp"

namespace udo {

/// The op of a library.
struct VendorOp {
  const char* package;
  OpSpec spec;
  bool sorted;  // the parameters, by name: for kernels of UDO packages
  Counter* executions;
  UdoDspShared* (*make)(QnnOpPackage_GlobalInfrastructure_t infrastructure);
  Udo_ErrorType_t (*release)(QnnOpPackage_GlobalInfrastructure_t infrastructure, UdoDspShared* functions);
};

/// The op package interface of a library with one op.
void fillInterface(QnnOpPackage_Interface_t& interface, const VendorOp& op);

}  // namespace udo
