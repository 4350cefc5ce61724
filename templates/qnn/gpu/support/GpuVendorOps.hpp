// Connects the backend's nodes with ops whose kernels are in Qualcomm's style (Operation.hpp).

#include <memory>

#include "GPU/QnnGpuOpPackage.h"

class Operation;

namespace udo {

/// One op of the package: its description, and the function that creates its kernels.
struct OpEntry : OpSpec {
  Counter* nodes;
  std::shared_ptr<::Operation> (*create)(const QnnGpuOpPackage_Node_t* node, Qnn_ErrorHandle_t* status);
};

/// Whether a node's parameters are sorted by name: for kernels of UDO packages.
extern const bool sortsParams;

/// What `getInfo` returns: texts of kernels may depend on the node, so the backend must not keep any.
QnnOpPackage_Info_t withoutHash(QnnOpPackage_Info_t package);

}  // namespace udo
