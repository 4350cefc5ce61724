#include <cstdio>
#include <cstring>
#include <new>
#include <string>

namespace udo {
namespace {

// --- what is known about a tensor ---------------------------------------------------------------------------------

const QnnGpu_MemoryObject_t* storageOf(const QnnGpuOpPackage_Node_t& node, std::uint32_t id) {
  if (node.storageTypes == nullptr) return nullptr;
  for (std::size_t i = 0; node.storageTypes[i] != nullptr; ++i) {
    if (node.storageTypes[i]->id == id) return node.storageTypes[i]->memoryObject;
  }
  return nullptr;
}

// The type in which the backend stores a tensor that connects two ops.
Qnn_DataType_t chosen(Qnn_DataType_t type, QnnGpu_Precision_t precision) {
  if (!isFloat(type) || precision == QNN_GPU_PRECISION_USER_PROVIDED) return type;
  return precision == QNN_GPU_PRECISION_FP32 ? QNN_DATATYPE_FLOAT_32 : QNN_DATATYPE_FLOAT_16;
}

void learn(TensorFacts& facts, const Qnn_Tensor_t& tensor, const QnnGpuOpPackage_Node_t& node) {
  if (isLeftOut(tensor)) return;
  facts.raw = &tensor;
  facts.stored = common(tensor).dataType;
  const QnnGpu_MemoryObject_t* const storage = storageOf(node, common(tensor).id);
  if (storage == nullptr || storage->type == QNN_GPU_MEM_OBJ_TYPE_UNCLAIMED) return;
  if (storage->dataType != QNN_DATATYPE_UNDEFINED) facts.stored = storage->dataType;
  facts.memory = storage->type == QNN_GPU_MEM_OBJ_TYPE_HOST ? QNN_GPU_MEM_OBJ_TYPE_BUFFER : storage->type;
  if (facts.memory == QNN_GPU_MEM_OBJ_TYPE_IMAGE2D && storage->numDimensions == 2) {
    facts.height = storage->dimensions[0];
    facts.width = storage->dimensions[1];
  }
}

// Calls `use(facts, name in OpenCL, number, spec)` for each input or output; facts are null for a missing one.
template <class Use>
void walk(List<TensorSpec> specs, List<const char*> names, TensorFacts* facts, std::size_t count, const Use& use) {
  const std::size_t extra = count > specs.count ? count - specs.count : 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < specs.count; ++i) {
    const std::size_t times = specs.items[i].repeated ? extra + 1 : 1;
    for (std::size_t k = 0; k < times; ++k, ++at) {
      use(at < count ? &facts[at] : nullptr, names.items[i], k, specs.items[i]);
    }
  }
}

// --- tensors as OpenCL macros -------------------------------------------------------------------------------------

const char* clType(Qnn_DataType_t type) {
  switch (static_cast<std::uint32_t>(type)) {
    case QNN_DATATYPE_FLOAT_16: return "half";
    case QNN_DATATYPE_FLOAT_32: return "float";
    case QNN_DATATYPE_INT_8:
    case QNN_DATATYPE_SFIXED_POINT_8: return "char";
    case QNN_DATATYPE_INT_16:
    case QNN_DATATYPE_SFIXED_POINT_16: return "short";
    case QNN_DATATYPE_INT_32:
    case QNN_DATATYPE_SFIXED_POINT_32: return "int";
    case QNN_DATATYPE_INT_64: return "long";
    case QNN_DATATYPE_UINT_16:
    case QNN_DATATYPE_UFIXED_POINT_16: return "ushort";
    case QNN_DATATYPE_UINT_32:
    case QNN_DATATYPE_UFIXED_POINT_32: return "uint";
    case QNN_DATATYPE_UINT_64: return "ulong";
    case 0x0264: return "double";
    default: return "uchar";
  }
}

class Text {
 public:
  explicit Text(const std::string& name) : name_(name) {}

  // `#define udo_<what>_<tensor><parameters> <meaning>`; `@` in the meaning is replaced by the tensor's name.
  void define(const char* what, const char* parameters, const std::string& meaning) {
    text_ += std::string("#define udo_") + what + "_" + name_ + parameters + " ";
    for (const char each : meaning) text_ += each == '@' ? name_ : std::string(1, each);
    text_ += "\n";
  }
  const std::string& text() const { return text_; }

 private:
  std::string name_, text_;
};

std::string literal(float number) {
  char text[48];
  std::snprintf(text, sizeof text, "%af", static_cast<double>(number));
  return text;
}

void describeImage(Text& text, const TensorFacts& facts) {
  const std::string width = std::to_string(facts.width);
  const std::string place = "(int2)((int)(i) % " + width + ", (int)(i) / " + width + ")";
  text.define("input", "", "__read_only image2d_t");
  text.define("output", "", "__write_only image2d_t");
  text.define("load4", "(p, i)", "read_imagef(p, " + place + ")");
  text.define("store4", "(p, i, v)", "write_imagef(p, " + place + ", v)");
  text.define("load", "(p, i)", "udo_component(udo_load4_@(p, (i) / 4), (int)(i) & 3)");
}

void describeBuffer(Text& text, const Tensor& tensor) {
  const std::string type = clType(tensor.type());
  text.define("input", "", "__global const " + type + "*");
  text.define("output", "", "__global " + type + "*");
  if (tensor.isHalf()) {
    text.define("load", "(p, i)", "vload_half(i, p)");
    text.define("store", "(p, i, v)", "vstore_half(v, i, p)");
    text.define("load4", "(p, i)", "vload_half4(i, p)");
    text.define("store4", "(p, i, v)", "vstore_half4(v, i, p)");
  } else if (tensor.isFixedPoint()) {
    text.define("load", "(p, i)", "(udo_scale_@ * ((float)(p)[i] + (float)udo_offset_@))");
    text.define("store", "(p, i, v)",
                "((p)[i] = convert_" + type + "_sat_rte((float)(v) / udo_scale_@ - (float)udo_offset_@))");
    text.define("load4", "(p, i)", "(udo_scale_@ * (convert_float4(vload4(i, p)) + (float)udo_offset_@))");
    text.define("store4", "(p, i, v)",
                "vstore4(convert_" + type + "4_sat_rte((v) / udo_scale_@ - (float)udo_offset_@), i, p)");
  } else {
    const bool truth = tensor.type() == QNN_DATATYPE_BOOL_8;
    text.define("load", "(p, i)", "((p)[i])");
    text.define("store", "(p, i, v)", truth ? "((p)[i] = (v) ? 1 : 0)" : "((p)[i] = (v))");
    text.define("load4", "(p, i)", "vload4(i, p)");
    text.define("store4", "(p, i, v)", "vstore4(v, i, p)");
  }
}

std::string described(const TensorFacts* facts, const char* name, std::size_t number, bool repeated) {
  Text text(repeated ? name + ("_" + std::to_string(number)) : name);
  const Tensor tensor(facts);
  text.define("has", "", tensor ? "1" : "0");
  if (!tensor) {  // so that a kernel that tests #if HAS(…) compiles
    text.define("type", "", "float");
    text.define("input", "", "__global const float*");
    text.define("output", "", "__global float*");
    return text.text();
  }
  text.define("type", "", clType(tensor.type()));
  text.define("image", "", tensor.isImage() ? "1" : "0");
  text.define("scale", "", literal(tensor.quantization().scale));
  text.define("offset", "", std::to_string(tensor.quantization().offset));
  if (tensor.isImage()) {
    describeImage(text, *facts);
  } else {
    describeBuffer(text, tensor);
  }
  return text.text();
}

// --- one node -------------------------------------------------------------------------------------------------------

// The facts of a node's tensors, one after the other: inputs, outputs, parameters.
class Facts {
 public:
  Facts(const OpEntry& entry, const Qnn_OpConfigV1_t& config, TensorFacts* all)
      : entry_(entry), config_(config), inputs_(all), outputs_(all + config.numOfInputs),
        params_(outputs_ + config.numOfOutputs) {}

  void gather(const QnnGpuOpPackage_Node_t& node, QnnGpu_Precision_t precision) {
    for (std::uint32_t i = 0; i < config_.numOfInputs; ++i) {
      take(inputs_[i], QNN_GPU_KERNEL_ARG_TYPE_OP_INPUT_READ, i, config_.inputTensors[i], node);
    }
    for (std::uint32_t i = 0; i < config_.numOfOutputs; ++i) {
      const Qnn_Tensor_t& tensor = config_.outputTensors[i];
      take(outputs_[i], QNN_GPU_KERNEL_ARG_TYPE_OP_OUTPUT_WRITE, i, tensor, node);
      if (common(tensor).type != QNN_TENSOR_TYPE_NATIVE) continue;
      outputs_[i].claimable = true;
      outputs_[i].memory = QNN_GPU_MEM_OBJ_TYPE_BUFFER;
      outputs_[i].stored = chosen(common(tensor).dataType, precision);
    }
    for (std::uint32_t i = 0; i < config_.numOfParams; ++i) {
      if (config_.params[i].paramType != QNN_PARAMTYPE_TENSOR) continue;
      take(params_[i], QNN_GPU_KERNEL_ARG_TYPE_OP_TENSOR_PARAM, i, config_.params[i].tensorParam, node);
    }
    const auto named = [](TensorFacts* tensor, const char* name, std::size_t, const TensorSpec&) {
      if (tensor != nullptr) tensor->name = name;
    };
    walk(entry_.inputs, entry_.names.inputs, inputs_, config_.numOfInputs, named);
    walk(entry_.outputs, entry_.names.outputs, outputs_, config_.numOfOutputs, named);
  }

  // Refuses a tensor with more than one scale, and an input that is an image whose pixels are not the tensor's
  // elements, four in each pixel.
  Status check() const {
    for (const auto& [tensors, count] : {std::pair(inputs_, config_.numOfInputs), std::pair(outputs_, config_.numOfOutputs),
                                         std::pair(params_, config_.numOfParams)}) {
      for (std::uint32_t i = 0; i < count; ++i) {
        Quantization found;
        if (tensors[i].raw == nullptr || !Tensor(&tensors[i]).isFixedPoint()) continue;
        const Qnn_QuantizeParams_t& params = common(*tensors[i].raw).quantizeParams;
        if (params.encodingDefinition != QNN_DEFINITION_DEFINED) continue;
        if (!encodingOf(params, found.scale, found.offset)) return notWhole(common(*tensors[i].raw).name);
      }
    }
    for (std::uint32_t i = 0; i < config_.numOfInputs; ++i) {
      const TensorFacts& facts = inputs_[i];
      if (facts.raw == nullptr || facts.memory != QNN_GPU_MEM_OBJ_TYPE_IMAGE2D) continue;
      const std::size_t pixels = static_cast<std::size_t>(facts.height) * facts.width;
      if (isFloat(facts.stored) && pixels * 4 == Tensor(&facts).size()) continue;
      return error("input `%s` comes as an image of %ux%u pixels, which this package cannot address", facts.name,
                   facts.height, facts.width);
    }
    return ok;
  }

  // OpenCL macros that define how the tensors are stored.
  std::string text() const {
    std::string all;
    const auto add = [&all](const TensorFacts* tensor, const char* name, std::size_t number, const TensorSpec& spec) {
      all += described(tensor, name, number, spec.repeated);
    };
    walk(entry_.inputs, entry_.names.inputs, inputs_, config_.numOfInputs, add);
    walk(entry_.outputs, entry_.names.outputs, outputs_, config_.numOfOutputs, add);
    for (std::size_t i = 0; i < entry_.params.count; ++i) {
      const ParamSpec& spec = entry_.params.items[i];
      const TensorFacts* found = nullptr;
      for (std::uint32_t k = 0; k < config_.numOfParams; ++k) {
        if (std::strcmp(config_.params[k].name, spec.name) == 0) found = &params_[k];
      }
      if (!spec.scalar) all += described(found, entry_.names.params.items[i], 0, false);
    }
    return all;
  }

 private:
  static void take(TensorFacts& facts, QnnGpu_KernelArgType_t argument, std::uint32_t index, const Qnn_Tensor_t& tensor,
                   const QnnGpuOpPackage_Node_t& node) {
    facts.argument = argument;
    facts.index = index;
    learn(facts, tensor, node);
  }

  const OpEntry& entry_;
  const Qnn_OpConfigV1_t& config_;
  TensorFacts* inputs_;
  TensorFacts* outputs_;
  TensorFacts* params_;
};

}  // namespace

TensorFacts defaultFacts(const Qnn_Tensor_t& raw, const char* name) {
  TensorFacts facts;
  facts.raw = &raw;
  facts.name = name;
  facts.stored = common(raw).dataType;
  return facts;
}

Qnn_Tensor_t defaultTensor(Qnn_DataType_t type, const void* data, const std::uint32_t* dims, std::uint32_t rank) {
  Qnn_Tensor_t tensor{};
  tensor.version = QNN_TENSOR_VERSION_1;
  tensor.v1.type = QNN_TENSOR_TYPE_STATIC;
  tensor.v1.dataType = type;
  tensor.v1.quantizeParams.encodingDefinition = QNN_DEFINITION_UNDEFINED;
  tensor.v1.rank = rank;
  tensor.v1.dimensions = const_cast<std::uint32_t*>(dims);
  tensor.v1.clientBuf.data = const_cast<void*>(data);
  return tensor;
}

// The backend chooses between floats of 16 and of 32 bits.
const ValidationRules rules = {[](Qnn_DataType_t given, Qnn_DataType_t named) { return isFloat(given) && isFloat(named); }};

// --- the op package interface ----------------------------------------------------------------------------------------

Qnn_ErrorHandle_t initialize(QnnOpPackage_GlobalInfrastructure_t) { return executions.begin(); }

Qnn_ErrorHandle_t terminate() { return executions.end(); }

Qnn_ErrorHandle_t validateOpConfig(Qnn_OpConfig_t given) {
  if (given.version != QNN_OPCONFIG_VERSION_1) return QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE;
  const Qnn_OpConfigV1_t& config = given.v1;
  const OpEntry* const entry = find(tables.ops, config.typeName);
  if (entry == nullptr) return noSuchOp(tables.info, config.typeName);
  if (config.numOfInputs + config.numOfOutputs + config.numOfParams > Operation::mostTensors) {
    const Running running(entry->name);
    error("has more than %zu tensors and parameters", Operation::mostTensors);
    return QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE;
  }
  return validateConfig(*entry, config, rules);
}

Qnn_ErrorHandle_t createOpImpl(QnnOpPackage_GraphInfrastructure_t graph, QnnOpPackage_Node_t given,
                               QnnOpPackage_OpImpl_t* impl) {
  if (given == nullptr || impl == nullptr) return QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT;
  const auto* const infrastructure = reinterpret_cast<const QnnGpuOpPackage_GraphInfrastructure_t*>(graph);
  const QnnGpu_Precision_t precision =
      infrastructure == nullptr ? QNN_GPU_PRECISION_USER_PROVIDED : infrastructure->precisionMode;
  const auto& node = *reinterpret_cast<const QnnGpuOpPackage_Node_t*>(given);
  if (node.configs == nullptr || node.configs[0] == nullptr || node.configs[0]->version != QNN_OPCONFIG_VERSION_1) {
    return QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT;
  }
  const Qnn_OpConfigV1_t& config = node.configs[0]->v1;
  const Status valid = validateOpConfig(*node.configs[0]);
  if (valid != ok) return valid;
  const OpEntry& entry = *find(tables.ops, config.typeName);
  const Running running(entry.name);
  auto* const operation = new (std::nothrow) Operation;
  if (operation == nullptr) return QNN_OP_PACKAGE_ERROR_GENERAL;
  Facts facts(entry, config, operation->facts_);
  facts.gather(node, precision);
  operation->claimBuffers(operation->facts_ + config.numOfInputs, config.numOfOutputs);
  Status status = facts.check();
  if (status == ok) status = entry.describe(Binding(entry, config, operation->facts_), *operation);
  // Only now, because the op may have changed outputs to images.
  if (status == ok) status = operation->finish(preludeText, entry.text, entry.file, facts.text());
  if (status != ok) {
    delete operation;
    return status;
  }
  *impl = reinterpret_cast<QnnOpPackage_OpImpl_t>(&operation->operation_);
  ++*entry.nodes;
  return ok;
}

Qnn_ErrorHandle_t freeOpImpl(QnnOpPackage_OpImpl_t impl) {
  static_assert(std::is_standard_layout_v<QnnGpu_Operation_t>);
  if (impl == nullptr) return QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT;
  delete reinterpret_cast<Operation*>(impl);  // createOpImpl returned its first member
  return ok;
}

QnnOpPackage_Info_t withHash(QnnOpPackage_Info_t package, List<OpEntry> ops) {
  static char text[24];
  static const QnnGpuOpPackage_PackageInfo_t gpuInfo = {text};
  std::string all = preludeText;
  for (const OpEntry& each : ops) all += each.text;
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hashOf(all)));
  package.packageInfo = &gpuInfo;
  return package;
}

Status kernelNotImplemented(const char* op, const char* file) {
  error("%s is not implemented: write setKernelInfo() in %s, and the kernel in the .cl file beside it", op, file);
  return QNN_OP_PACKAGE_ERROR_UNSUPPORTED_FEATURE;
}

// --- parameters -----------------------------------------------------------------------------------------------------

std::size_t Binding::find(const char* param) const {
  std::size_t at = 0;
  while (at < config_.numOfParams && std::strcmp(config_.params[at].name, param) != 0) ++at;
  return at;
}

const char* Binding::string(const char* param, const char* otherwise) const {
  const std::size_t found = find(param);
  if (found == config_.numOfParams || config_.params[found].paramType != QNN_PARAMTYPE_SCALAR) return otherwise;
  const Qnn_Scalar_t& scalar = config_.params[found].scalarParam;
  return scalar.dataType == textType ? scalar.stringValue : otherwise;
}

std::int64_t Binding::signedOf(const Qnn_Scalar_t& number) {
  switch (static_cast<std::uint32_t>(number.dataType) & 0xff) {
    case 0x08: return number.int8Value;
    case 0x16: return number.int16Value;
    case 0x32: return number.int32Value;
    default: return number.int64Value;
  }
}

std::uint64_t Binding::unsignedOf(const Qnn_Scalar_t& number) {
  switch (static_cast<std::uint32_t>(number.dataType) & 0xff) {
    case 0x08: return number.uint8Value;
    case 0x16: return number.uint16Value;
    case 0x32: return number.uint32Value;
    default: return number.uint64Value;
  }
}

double Binding::realOf(const Qnn_Scalar_t& number) {
  return static_cast<std::uint32_t>(number.dataType) == 0x0264 ? number.doubleValue
                                                               : static_cast<double>(number.floatValue);
}

}  // namespace udo
