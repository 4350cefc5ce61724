// A package as the generated tables describe it, and its QNN op package interface.

namespace udo {

// An op in the tables of a backend.
struct OpEntry;

// The package, as the generated tables describe it.
struct PackageTables {
  const char* name;
  List<OpEntry> ops;
  QnnOpPackage_Info_t info;
};
extern const PackageTables tables;
inline constexpr Qnn_Version_t coreVersion = {QNN_API_VERSION_MAJOR, QNN_API_VERSION_MINOR, QNN_API_VERSION_PATCH};
inline constexpr Qnn_ApiVersion_t apiVersion = {coreVersion, {1, 1, 0}};
inline constexpr Qnn_ApiVersion_t htpApiVersion = {coreVersion, {5, 0, 0}};
inline constexpr Qnn_ApiVersion_t gpuApiVersion = {coreVersion, {3, 5, 0}};

// Functions of the QNN op package interface, which each backend defines.
Qnn_ErrorHandle_t initialize(QnnOpPackage_GlobalInfrastructure_t infrastructure);
Qnn_ErrorHandle_t terminate();
Qnn_ErrorHandle_t validateOpConfig(Qnn_OpConfig_t config);
Qnn_ErrorHandle_t createOpImpl(QnnOpPackage_GraphInfrastructure_t graph, QnnOpPackage_Node_t node,
                               QnnOpPackage_OpImpl_t* impl);
Qnn_ErrorHandle_t freeOpImpl(QnnOpPackage_OpImpl_t impl);

inline Qnn_ErrorHandle_t getInfo(const QnnOpPackage_Info_t** info) {
  if (info == nullptr) return QNN_OP_PACKAGE_ERROR_INVALID_INFO;
  *info = &tables.info;
  return QNN_SUCCESS;
}

// Fills in the functions of the interface.
inline void fillInterface(QnnOpPackage_Interface_t& table) {  // `interface` is a macro of the Windows headers
  table.interfaceVersion = {1, 4, 0};
  table.v1_4 = {initialize, terminate,     getInfo,     validateOpConfig, createOpImpl,
                freeOpImpl, logInitialize, logSetLevel, logTerminate};
}

}  // namespace udo
