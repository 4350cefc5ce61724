#include <cstring>

namespace udo {
namespace {

// --- data types ------------------------------------------------------------------------------------------------------

std::uint32_t sizeOf(Udo_DataType_t type) {
  switch (type) {
    case UDO_DATATYPE_FIXED_8:
    case UDO_DATATYPE_UINT_8:
    case UDO_DATATYPE_INT_8: return 1;
    case UDO_DATATYPE_FLOAT_16:
    case UDO_DATATYPE_FIXED_16:
    case UDO_DATATYPE_UINT_16:
    case UDO_DATATYPE_INT_16: return 2;
    case UDO_DATATYPE_FLOAT_32:
    case UDO_DATATYPE_FIXED_32:
    case UDO_DATATYPE_UINT_32:
    case UDO_DATATYPE_INT_32: return 4;
    default: return 0;
  }
}

bool isFloat(Udo_DataType_t type) { return type == UDO_DATATYPE_FLOAT_32 || type == UDO_DATATYPE_FLOAT_16; }

// Whether a kernel reads the right bytes: the DSP has other names for signed types and fixed point.
bool isStoredAlike(Udo_DataType_t a, Udo_DataType_t b) { return sizeOf(a) == sizeOf(b) && isFloat(a) == isFloat(b); }

// --- parameters ------------------------------------------------------------------------------------------------------

// The type of the spec that matches the stored type of a tensor.
Qnn_DataType_t storedAs(Udo_DataType_t type, List<Qnn_DataType_t> types) {
  for (const Qnn_DataType_t each : types) {
    if (udoTypeOf(each) == type) return each;
  }
  for (const Qnn_DataType_t each : types) {
    if (isStoredAlike(type, udoTypeOf(each))) return each;
  }
  return types.items[0];
}

bool isText(const ParamSpec& spec) { return spec.types.items[0] == textType; }

// The type as which Binding::number reads a scalar.
Qnn_DataType_t scalarTypeOf(Udo_DataType_t type) {
  switch (type) {
    case UDO_DATATYPE_FLOAT_32: return QNN_DATATYPE_FLOAT_32;
    case UDO_DATATYPE_INT_32: return QNN_DATATYPE_INT_32;
    case UDO_DATATYPE_INT_16: return QNN_DATATYPE_INT_16;
    case UDO_DATATYPE_INT_8: return QNN_DATATYPE_INT_8;
    case UDO_DATATYPE_UINT_16: return QNN_DATATYPE_UINT_16;
    case UDO_DATATYPE_UINT_8: return QNN_DATATYPE_UINT_8;
    default: return QNN_DATATYPE_UINT_32;
  }
}

bool isDefault(const ParamSpec& spec, const Udo_Param_t& param) {
  if (param.paramType == UDO_PARAMTYPE_TENSOR) return isDefault(*spec.only, param.tensorParam, spec.types);
  if (param.paramType == UDO_PARAMTYPE_SCALAR) {
    const Qnn_DataType_t type = scalarTypeOf(param.scalarParam.dataType);
    return spec.only->is(*spec.only, type, &param.scalarParam.dataValue, 1);
  }
  return spec.only->text != nullptr && param.stringParam != nullptr &&
         std::strcmp(spec.only->text, param.stringParam) == 0;
}

Udo_ErrorType_t checkParam(List<ParamSpec> specs, const Udo_Param_t& param) {
  const ParamSpec* spec = find(specs, param.paramName);
  if (spec == nullptr) {
    return refuse(UDO_INVALID_ARGUMENT, "has no parameter `%s`", param.paramName == nullptr ? "" : param.paramName);
  }
  const Udo_ParamType_t expected =
      isText(*spec) ? UDO_PARAMTYPE_STRING : (spec->scalar ? UDO_PARAMTYPE_SCALAR : UDO_PARAMTYPE_TENSOR);
  if (param.paramType != expected) {
    return refuse(UDO_INVALID_ARGUMENT, "parameter `%s` must be a %s", spec->name,
                  isText(*spec) ? "text" : (spec->scalar ? "scalar" : "tensor"));
  }
  if (expected == UDO_PARAMTYPE_TENSOR && !isOneOf(param.tensorParam.dataType, spec->types)) {
    return refuse(UDO_INVALID_ARGUMENT, "parameter `%s` is of another data type (0x%x)", spec->name,
                  static_cast<unsigned>(param.tensorParam.dataType));
  }
  if (expected == UDO_PARAMTYPE_SCALAR && spec->enumerators != 0) {
    const std::uint32_t mask = sizeOf(param.scalarParam.dataType) == 1 ? 0xffu : 0xffffffffu;
    const std::uint32_t value = param.scalarParam.dataValue.uint32Value & mask;
    if (value >= spec->enumerators) {
      return refuse(UDO_INVALID_ARGUMENT, "parameter `%s` is %u; its enumeration has only 0 to %u", spec->name,
                    static_cast<unsigned>(value), static_cast<unsigned>(spec->enumerators - 1));
    }
  }
  if (spec->only != nullptr && !isDefault(*spec, param)) {
    return refuse(UDO_INVALID_ARGUMENT, "parameter `%s` is not its default, and no other value is supported",
                  spec->name);
  }
  return UDO_NO_ERROR;
}

// Copies objects into one block of memory, one after the other; without a block it only counts bytes.
class Copier {
 public:
  explicit Copier(unsigned char* block) : block_(block) {}

  template <class T>
  T* copy(const T* from, std::size_t count, std::size_t alignment = alignof(T)) {
    used_ = (used_ + alignment - 1) / alignment * alignment;
    auto* const to = block_ == nullptr ? nullptr : reinterpret_cast<T*>(block_ + used_);
    if (to != nullptr && count != 0) std::memcpy(to, from, count * sizeof(T));
    used_ += count * sizeof(T);
    return to;
  }

  std::size_t used() const { return used_; }

 private:
  unsigned char* block_;
  std::size_t used_ = 0;
};

char* copyText(Copier& copier, const char* text) { return copier.copy(text, std::strlen(text) + 1); }

void copyTensor(Copier& copier, const Udo_TensorParam_t& from, Udo_TensorParam_t* to) {
  std::uint32_t* const dims = copier.copy(from.currDimensions, from.tensorRank);
  auto* const data = copier.copy(static_cast<const unsigned char*>(from.tensorData), bytesOf(from, from.currDimensions),
                               128);  // the size of a vector
  if (to == nullptr) return;
  to->maxDimensions = dims;
  to->currDimensions = dims;
  to->tensorData = data;
}

}  // namespace

Udo_ErrorType_t refuse(Udo_ErrorType_t code, const char* format, ...) {
  std::va_list list;
  va_start(list, format);
  errorList(format, list);
  va_end(list);
  return code;
}

bool isDefault(const OnlyValue& only, const Udo_TensorParam_t& tensor, List<Qnn_DataType_t> types) {
  std::size_t count = 1;
  for (std::uint32_t axis = 0; axis < tensor.tensorRank; ++axis) count *= tensor.currDimensions[axis];
  return only.is(only, storedAs(tensor.dataType, types), tensor.tensorData, count);
}

bool isOneOf(Udo_DataType_t type, List<Qnn_DataType_t> types) {
  for (const Qnn_DataType_t each : types) {
    if (isStoredAlike(type, udoTypeOf(each))) return true;
  }
  return false;
}

std::uint32_t bytesOf(const Udo_TensorParam_t& tensor, const std::uint32_t* dims) {
  std::uint32_t bytes = sizeOf(tensor.dataType);
  for (std::uint32_t axis = 0; axis < tensor.tensorRank; ++axis) bytes *= dims[axis];
  return bytes;
}

Udo_ErrorType_t checkParams(List<ParamSpec> specs, std::uint32_t count, const Udo_Param_t* params) {
  if (count > specs.count) {
    return refuse(UDO_WRONG_NUM_OF_PARAMS, "has %u parameters; it can have %u", static_cast<unsigned>(count),
                  static_cast<unsigned>(specs.count));
  }
  if (count != 0 && params == nullptr) return refuse(UDO_INVALID_ARGUMENT, "the array of its parameters is NULL");
  for (std::uint32_t i = 0; i < count; ++i) {
    const Udo_ErrorType_t fault = checkParam(specs, params[i]);
    if (fault != UDO_NO_ERROR) return fault;
  }
  for (const ParamSpec& each : specs) {
    bool given = !each.mandatory;
    for (std::uint32_t i = 0; i < count && !given; ++i) given = std::strcmp(each.name, params[i].paramName) == 0;
    if (!given) return refuse(UDO_WRONG_NUM_OF_PARAMS, "lacks the mandatory parameter `%s`", each.name);
  }
  return UDO_NO_ERROR;
}

namespace {

Factory* copyInto(Copier& copier, std::uint32_t count, const Udo_Param_t* params) {
  Factory made = {count, nullptr};
  auto* const factory = copier.copy(&made, 1, 128);
  Udo_Param_t* const copies = copier.copy(params, count);
  if (factory != nullptr) factory->params = copies;
  for (std::uint32_t i = 0; i < count; ++i) {
    Udo_Param_t* const to = factory == nullptr ? nullptr : &copies[i];
    char* const name = copyText(copier, params[i].paramName);
    if (to != nullptr) to->paramName = name;
    if (params[i].paramType == UDO_PARAMTYPE_STRING) {
      char* const text = copyText(copier, params[i].stringParam == nullptr ? "" : params[i].stringParam);
      if (to != nullptr) to->stringParam = text;
    } else if (params[i].paramType == UDO_PARAMTYPE_TENSOR) {
      copyTensor(copier, params[i].tensorParam, to == nullptr ? nullptr : &to->tensorParam);
    }
  }
  return factory;
}

}  // namespace

Factory* copyParams(const Udo_HexNNv2GlobalInfra_t& dsp, std::uint32_t count, const Udo_Param_t* params) {
  Copier counted(nullptr);
  copyInto(counted, count, params);
  auto* const block = static_cast<unsigned char*>(dsp.udoMemalign(128, counted.used()));
  Copier copier(block);
  return block == nullptr ? nullptr : copyInto(copier, count, params);
}

const Udo_Param_t* Binding::find(const char* param) const {
  const Factory& factory = *operation_.factory;
  for (std::uint32_t i = 0; i < factory.count; ++i) {
    if (std::strcmp(factory.params[i].paramName, param) == 0) return &factory.params[i];
  }
  return nullptr;
}

double Binding::number(const Udo_ScalarParam_t& scalar) {
  const Udo_Value_t& value = scalar.dataValue;
  switch (scalar.dataType) {
    case UDO_DATATYPE_FLOAT_32: return static_cast<double>(value.floatValue);
    case UDO_DATATYPE_INT_32: return value.int32Value;
    case UDO_DATATYPE_INT_16: return value.int16Value;
    case UDO_DATATYPE_INT_8: return value.int8Value;
    case UDO_DATATYPE_UINT_16: return value.uint16Value;
    case UDO_DATATYPE_UINT_8: return value.uint8Value;
    default: return value.uint32Value;
  }
}

const char* Binding::string(const char* param, const char* otherwise) const {
  const Udo_Param_t* found = find(param);
  return found != nullptr && found->paramType == UDO_PARAMTYPE_STRING ? found->stringParam : otherwise;
}

RawTensor defaultTensor(Qnn_DataType_t type, const void* data, const std::uint32_t* dims, std::uint32_t rank) {
  RawTensor tensor = {};
  tensor.maxDimensions = const_cast<std::uint32_t*>(dims);
  tensor.currDimensions = tensor.maxDimensions;
  tensor.tensorRank = rank;
  tensor.dataType = udoTypeOf(type);
  tensor.layout = UDO_LAYOUT_NHWC;
  tensor.tensorData = const_cast<void*>(data);
  return tensor;
}
}  // namespace udo
