// Part of every op package that udogen generates for the HTP backend; regenerating rewrites this file.
#include "HtpBackendUtils.hpp"

#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace udo {
namespace {

bool allows(List<std::uint32_t> ranks, bool five) {
  if (ranks.count == 0) return true;
  for (const std::uint32_t rank : ranks) {
    if ((rank == 5) == five) return true;
  }
  return false;
}

QHPI_Tensor_Signature_v1 signature(std::uint32_t element, List<std::uint32_t> ranks, bool five) {
  // Where the rank of a tensor leaves no choice, its layout does not follow the others.
  const bool wide = five ? allows(ranks, true) : !allows(ranks, false);
  return {element, static_cast<std::uint32_t>(wide ? QHPI_Layout_Flat5 : QHPI_Layout_Flat4), QHPI_Storage_Direct,
          QHPI_MemLoc_DDR_OR_TCM};
}

std::vector<std::uint32_t> elementsOf(const TensorSpec& spec) {
  std::vector<std::uint32_t> found;
  for (const Qnn_DataType_t type : spec.types) {
    const std::uint32_t element = elementOf(type);
    bool known = false;
    for (const std::uint32_t each : found) known = known || each == element;
    if (!known) found.push_back(element);
  }
  return found;
}

/// Everything that QHPI keeps pointers to; it lives as long as the library.
struct Records {
  std::deque<std::string> names;
  std::deque<std::vector<QHPI_Tensor_Signature_v1>> signatures;
  std::deque<std::vector<QHPI_Kernel_v1>> kernels;
  std::vector<QHPI_OpInfo_v1> ops;
};

float cost(const std::uint32_t inputs, const QHPI_Tensor* const* input) {
  float bytes = 0.0f;
  for (std::uint32_t i = 0; i < inputs; ++i) {
    const std::size_t size = Shape(qhpi_tensor_shape(input[i])).count();
    bytes += static_cast<float>(size * qhpi_element_type_size(qhpi_tensor_type(input[i])));
  }
  return bytes;
}

/// One record: these element types, this layout, this many parameters.
QHPI_Kernel_v1 record(Records& records, const OpEntry& op, const std::vector<std::uint32_t>& elements, bool five,
                      std::size_t params) {
  const std::size_t inputs = op.spec.inputs.count;
  std::vector<QHPI_Tensor_Signature_v1> in;
  std::vector<QHPI_Tensor_Signature_v1> out;
  for (std::size_t i = 0; i < inputs; ++i) in.push_back(signature(elements[i], op.spec.inputs.items[i].ranks, five));
  for (std::size_t i = 0; i < params; ++i) {
    in.push_back(signature(QHPI_Any_Element_Type, op.spec.params.items[i].ranks, false));
  }
  for (std::size_t i = 0; i < op.spec.outputs.count; ++i) {
    out.push_back(signature(elements[inputs + i], op.spec.outputs.items[i].ranks, five));
  }
  QHPI_Kernel_v1 kernel = {};
  // From SDK 2.49 on, two records of one function name are refused as duplicates.
  records.names.push_back(std::string(op.spec.name) + "_" + std::to_string(records.names.size()));
  kernel.function_name = records.names.back().c_str();
  kernel.function = op.function;
  kernel.resources = QHPI_RESOURCE_HVX;
  kernel.min_inputs = static_cast<std::uint32_t>(in.size());
  kernel.min_outputs = static_cast<std::uint32_t>(out.size());
  records.signatures.push_back(std::move(in));
  kernel.input_signature = records.signatures.back().data();
  records.signatures.push_back(std::move(out));
  kernel.output_signature = records.signatures.back().data();
  kernel.cost_function = cost;
  return kernel;
}

/// All records of an op.
std::vector<QHPI_Kernel_v1> recordsOf(Records& records, const OpEntry& op) {
  std::vector<std::vector<std::uint32_t>> choices;
  for (const TensorSpec& each : op.spec.inputs) choices.push_back(elementsOf(each));
  for (const TensorSpec& each : op.spec.outputs) choices.push_back(elementsOf(each));
  bool four = true;
  bool five = true;
  bool free = false;
  for (List<TensorSpec> tensors : {op.spec.inputs, op.spec.outputs}) {
    for (const TensorSpec& each : tensors) {
      four = four && allows(each.ranks, false);
      five = five && allows(each.ranks, true);
      free = free || (allows(each.ranks, true) && allows(each.ranks, false));
    }
  }
  std::size_t fewest = op.spec.params.count;
  while (fewest > 0 && !op.spec.params.items[fewest - 1].mandatory) --fewest;

  std::vector<QHPI_Kernel_v1> found;
  std::vector<std::size_t> at(choices.size(), 0);
  for (bool more = true; more;) {
    std::vector<std::uint32_t> elements;
    for (std::size_t i = 0; i < choices.size(); ++i) elements.push_back(choices[i][at[i]]);
    for (std::size_t params = fewest; params <= op.spec.params.count; ++params) {
      if (four || !five) found.push_back(record(records, op, elements, false, params));
      if (five || free) found.push_back(record(records, op, elements, true, params));
    }
    more = false;
    for (std::size_t i = 0; i < at.size() && !more; ++i) {
      more = ++at[i] < choices[i].size();
      if (!more) at[i] = 0;
    }
  }
  return found;
}

}  // namespace

QHPI_Element_Type elementOf(Qnn_DataType_t type) {
  switch (static_cast<std::uint32_t>(type)) {
    case QNN_DATATYPE_FLOAT_32: return QHPI_Float32;
    case QNN_DATATYPE_FLOAT_16: return QHPI_Float16;
    case QNN_DATATYPE_INT_32:
    case QNN_DATATYPE_UINT_32: return QHPI_Int32;
    case QNN_DATATYPE_SFIXED_POINT_32: return QHPI_QInt32;
    case QNN_DATATYPE_INT_64: return QHPI_Int64;
    case QNN_DATATYPE_INT_16:
    case QNN_DATATYPE_UINT_16:
    case QNN_DATATYPE_SFIXED_POINT_16:
    case QNN_DATATYPE_UFIXED_POINT_16: return QHPI_QUInt16;
    default: return QHPI_QUInt8;
  }
}

QHPI_StatusCode registerOps(const char* package, List<OpEntry> ops) {
  static Records* records = nullptr;
  if (records != nullptr) return QHPI_Success;
  records = new Records();
  for (const OpEntry& op : ops) {
    records->kernels.push_back(recordsOf(*records, op));
    QHPI_OpInfo_v1 info = {};
    info.name = op.qualifiedName;
    info.num_kernels = static_cast<std::uint32_t>(records->kernels.back().size());
    info.kernels = records->kernels.back().data();
    records->ops.push_back(info);
  }
  return qhpi_register_ops_v1(static_cast<std::uint32_t>(records->ops.size()), records->ops.data(), package);
}

double Binding::number(std::size_t param) const {
  const QHPI_Tensor* tensor = input_[spec_.inputs.count + param];
  const void* data = qhpi_tensor_raw_data(tensor);
  const std::uint32_t type = spec_.params.items[param].types.items[0];
  // A BOOL_8 arrives as a Float32 that holds an integer, so what the config says counts.
  if (type == QNN_DATATYPE_FLOAT_32 || (type & 0xff00) == 0x0200) {
    if (qhpi_tensor_type(tensor) == QHPI_Float32) return static_cast<double>(*static_cast<const float*>(data));
    if (qhpi_tensor_type(tensor) == QHPI_Float16) return static_cast<double>(float(*static_cast<const Half*>(data)));
  }
  std::uint32_t bits = 0;
  std::memcpy(&bits, data, sizeof bits);
  if ((type & 0xff00) == 0x0000) return static_cast<double>(static_cast<std::int32_t>(bits));
  return static_cast<double>(bits);
}

}  // namespace udo
