// Connects the tables of a package with kernels in Qualcomm's style (include/CustomOpPackage.hpp).

namespace udo {

/// Whether a node's parameters are sorted by name: for kernels of UDO packages.
extern const bool sortsParams;

/// Fills in how an instance of an op is created whose kernel is registered with REGISTER_OP.
void describeCustomOp(OpFacts& facts);

/// fillInterface, with the kernels' own validateOpConfig after validation of the config.
void fillCustomInterface(QnnOpPackage_Interface_t& table);

}  // namespace udo
