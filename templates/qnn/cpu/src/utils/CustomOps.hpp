// Auto-generated part of every op package with kernels in Qualcomm's style; regenerating rewrites this file.
//
// Between the tables of a package and kernels in Qualcomm's style (include/CustomOpPackage.hpp).
#pragma once

#include "CPU/CpuBackendUtils.hpp"

namespace udo {

/// For an op whose kernel is registered with REGISTER_OP: how an instance of it is made.
void describeCustomOp(OpFacts& facts);

/// fillInterface, with the kernels' own validateOpConfig behind validation of the config.
void fillCustomInterface(QnnOpPackage_Interface_t& table);

}  // namespace udo
