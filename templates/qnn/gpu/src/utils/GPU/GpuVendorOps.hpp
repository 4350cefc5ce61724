// Auto-generated part of every op package with kernels in Qualcomm's style; regenerating rewrites this file.
//
// Between the backend's nodes and ops whose kernels are in Qualcomm's style (Operation.hpp).
#pragma once

#include <memory>

#include "Executions.hpp"
#include "GPU/QnnGpuOpPackage.h"

class Operation;

namespace udo {

/// One op of the package: what it looks like, and what makes its kernels.
struct OpEntry {
  OpSpec spec;
  Counter* nodes;
  std::shared_ptr<::Operation> (*create)(const QnnGpuOpPackage_Node_t* node, Qnn_ErrorHandle_t* status);
};

struct PackageTables {
  const char* name;
  List<OpEntry> ops;
  QnnOpPackage_Info_t info;
  // SNPE hands parameters on in the order of their names, and kernels of UDO packages read them by their place.
  bool sortsParams;
};
extern const PackageTables tables;
inline constexpr Qnn_ApiVersion_t apiVersion = {
    {QNN_API_VERSION_MAJOR, QNN_API_VERSION_MINOR, QNN_API_VERSION_PATCH}, {3, 5, 0}};

}  // namespace udo
