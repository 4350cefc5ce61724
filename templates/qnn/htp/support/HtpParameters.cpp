#include <cstring>

// Graphs are prepared on the host; the DSP only executes them.
#if !defined(__hexagon__)
#define UDO_PREPARES 1
#include <mutex>
#include <set>
#include <string>
#include <vector>
#endif

namespace udo {
const OpEntry* findOp(const char* qualifiedName) {
  for (const OpEntry& each : tables.ops) {
    if (qualifiedName != nullptr && std::strcmp(each.qualifiedName, qualifiedName) == 0) return &each;
  }
  return nullptr;
}

#ifdef UDO_PREPARES

namespace {

std::string namesOf(const OpSpec& spec) {
  std::string names;
  for (const ParamSpec& each : spec.params) names += (names.empty() ? "" : ", ") + std::string(each.name);
  return names;
}

const QHPI_Op* refuse(const OpSpec& spec, const QHPI_Op* node, const std::string& why) {
  const Running running(spec.name);
  error("%s", why.c_str());
  // HTP keeps a pointer to the text; there are a few for each op.
  static std::mutex mutex;
  static auto* const texts = new std::set<std::string>;
  const std::lock_guard<std::mutex> lock(mutex);
  return qhpi_op_create_error(node, texts->insert("op " + std::string(spec.name) + ": " + why).first->c_str());
}

// Kernels get signed integers of 8 and 16 bits as unsigned ones; in rewrites they are still signed.
std::uint32_t unsignedOf(std::uint32_t element) {
  if (element == QHPI_QInt8) return QHPI_QUInt8;
  if (element == QHPI_QInt16) return QHPI_QUInt16;
  return element;
}

// Whether a value has a type and a number of elements that the kernel reads correctly as this parameter.
bool isOfParam(const ParamSpec& spec, const QHPI_OpRef& value) {
  if (udo::isAbsent(value.op)) return true;
  const QHPI_OutputDef made = qhpi_op_output(value.op, value.output_number);
  const std::uint32_t element = unsignedOf(made.type);
  std::size_t count = 1;
  for (std::uint32_t axis = 0; axis < made.shape.rank; ++axis) count *= made.shape.dims[axis];
  if (spec.scalar && count != 1) return false;
  for (const Qnn_DataType_t type : spec.types) {
    const bool isReal = (type & 0xff00) == 0x0200;
    if (element == elementOf(type)) return true;
    if (spec.scalar && element == QHPI_Float32 && (isReal || type == QNN_DATATYPE_BOOL_8)) return true;
    if (spec.scalar && element == (isReal ? QHPI_Float16 : QHPI_Int32)) return true;
  }
  return false;
}

const QHPI_Op* refuseParameter(const OpSpec& spec, std::size_t param, const QHPI_Op* node) {
  return refuse(spec, node, "parameter `" + std::string(spec.params.items[param].name) +
                                "` has another type or number of elements than in the config; their order is " +
                                namesOf(spec));
}

}  // namespace

// HTP never calls it; some clients do.
Qnn_ErrorHandle_t validateOpConfig(Qnn_OpConfig_t config) {
  const OpSpec* spec = nullptr;
  for (const OpEntry& each : tables.ops) {
    if (config.version != QNN_OPCONFIG_VERSION_1 || config.v1.typeName == nullptr) break;
    if (std::strcmp(each.spec->name, config.v1.typeName) == 0) spec = each.spec;
  }
  const Status status = validateNode(tables.info, spec, config);
  if (status == ok && hasOrder(*spec)) rememberParameters(*spec, config.v1);
  return status;
}

#else

Qnn_ErrorHandle_t validateOpConfig(Qnn_OpConfig_t) { return QNN_SUCCESS; }

#endif

}  // namespace udo
