// A stand-in for the C++ headers of HTP: the macros that a package uses record their arguments, and tensors are
// plain memory.  `recorded` returns the records as lines of text, `execute` calls a registered function.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "QnnTypes.h"

// --- tensors ------------------------------------------------------------------------------------------------

enum class DType { Float32, Float16, QUInt8, QUInt16, QInt8, QInt16, Int32 };

struct DTypeScaleOff {
  DType dtype;
  float scale;
  int offset;
};

/// The upper half of a float, which is precise enough for the tests.
class Float16 {
 public:
  Float16() = default;
  Float16(float value) {
    std::uint32_t all;
    std::memcpy(&all, &value, sizeof all);
    bits_ = static_cast<std::uint16_t>(all >> 16);
  }
  operator float() const {
    const std::uint32_t all = static_cast<std::uint32_t>(bits_) << 16;
    float value;
    std::memcpy(&value, &all, sizeof value);
    return value;
  }

 private:
  std::uint16_t bits_ = 0;
};

class Tensor {
 public:
  Tensor(DTypeScaleOff kind, std::vector<std::size_t> dims, void* data)
      : kind_(kind), dims_(std::move(dims)), data_(data) {}
  std::size_t rank() const { return dims_.size(); }
  std::size_t dim(std::size_t axis) const { return dims_[axis]; }
  DTypeScaleOff get_dtype_intfc() const { return kind_; }
  DType get_dtype() const { return kind_.dtype; }
  void* raw_data() { return data_; }
  const void* raw_data_const() const { return data_; }

 private:
  DTypeScaleOff kind_;
  std::vector<std::size_t> dims_;
  void* data_;
};

template <DType Kind, class Element>
class ConcreteTensor : public Tensor {
 public:
  using element_type = Element;
  using Tensor::Tensor;
};
using PlainFloatTensor = ConcreteTensor<DType::Float32, float>;
using PlainFloat16Tensor = ConcreteTensor<DType::Float16, Float16>;
using QuantUint8Tensor = ConcreteTensor<DType::QUInt8, std::uint8_t>;
using QuantUint16Tensor = ConcreteTensor<DType::QUInt16, std::uint16_t>;
using Int32Tensor = ConcreteTensor<DType::Int32, std::int32_t>;

struct GraphStatus {
  enum Code { Success = 0, ErrorUnsupported = 7, ErrorFatal = -1 };
  GraphStatus(Code given) : code(given) {}
  Code code;
};

class Op {};

enum class Flags : unsigned { IS_CONST, INHIBIT_CONST_PROP, RESOURCE_HVX, RESOURCE_HMX };

struct StandardCosts {
  static constexpr float FREE = 0, FAST = 1, SNAIL = 1000, GLACIAL = 1e6f;
};

// Macros of the real headers whose names a config may use for something else.
#define EARLY 3050
#define LATE 21050
#define QNN 2050

// --- the records --------------------------------------------------------------------------------------------

namespace recorder {

struct Kernel {
  std::string op;
  int (*call)(const std::vector<Tensor*>& tensors);
};

inline std::vector<Kernel>& kernels() {
  static std::vector<Kernel> found;
  return found;
}
inline std::string& lines() {
  static std::string found;
  return found;
}
inline bool write(const std::string& line) {
  lines() += line + "\n";
  return true;
}

template <class T>
const char* nameOf() {
  if (std::is_same_v<T, PlainFloatTensor>) return "PlainFloatTensor";
  if (std::is_same_v<T, PlainFloat16Tensor>) return "PlainFloat16Tensor";
  if (std::is_same_v<T, QuantUint8Tensor>) return "QuantUint8Tensor";
  if (std::is_same_v<T, QuantUint16Tensor>) return "QuantUint16Tensor";
  if (std::is_same_v<T, Int32Tensor>) return "Int32Tensor";
  return "Tensor";
}

template <auto Function>
struct Call;
template <class... Arguments, GraphStatus (*Function)(Arguments...)>
struct Call<Function> {
  template <std::size_t... I>
  static int with(const std::vector<Tensor*>& tensors, std::index_sequence<I...>) {
    return Function(static_cast<Arguments>(static_cast<std::decay_t<Arguments>&>(*tensors[I]))...).code;
  }
  static int call(const std::vector<Tensor*>& tensors) {
    if (tensors.size() != sizeof...(Arguments)) return -2;
    return with(tensors, std::index_sequence_for<Arguments...>());
  }
  static std::string types() {
    std::string found;
    ((found += std::string(std::is_const_v<std::remove_reference_t<Arguments>> ? " " : " &") +
               nameOf<std::decay_t<Arguments>>()),
     ...);
    return found;
  }
};

template <auto Function, class... Flag>
bool kernel(const char* op, const std::string& cost, Flag... flags) {
  std::string line = std::string("kernel ") + op + Call<Function>::types() + " cost " + cost + " flags";
  ((line += " " + std::to_string(static_cast<unsigned>(flags))), ...);
  kernels().push_back({op, Call<Function>::call});
  return write(line);
}

inline std::string number(double value) {
  std::string text = std::to_string(value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

inline std::string valueOf(const void* given) {
  if (given == nullptr) return "-";
  const auto& param = *static_cast<const Qnn_Param_t*>(given);
  if (param.paramType == QNN_PARAMTYPE_SCALAR) {
    const Qnn_Scalar_t& scalar = param.scalarParam;
    const double value = scalar.dataType == QNN_DATATYPE_FLOAT_32 ? static_cast<double>(scalar.floatValue)
                         : scalar.dataType == QNN_DATATYPE_BOOL_8 ? scalar.bool8Value
                                                                  : scalar.int32Value;
    return std::string(param.name) + "=" + number(value);
  }
  const Qnn_TensorV1_t& tensor = param.tensorParam.v1;
  std::string text = std::string(param.name) + "=[";
  for (std::uint32_t i = 0; i < tensor.dimensions[0]; ++i) {
    text += (i ? " " : "") + number(static_cast<double>(static_cast<const float*>(tensor.clientBuf.data)[i]));
  }
  return text + "]";
}

inline void order(std::string&) {}
template <class... Rest>
void order(std::string& line, const char* name, bool mandatory, const void* value, Rest... rest) {
  line += std::string(" ") + name + (mandatory ? "! " : " ") + valueOf(value);
  order(line, rest...);
}

}  // namespace recorder

namespace DefProperties {

struct Names {
  std::string text;
};
template <class... Name>
Names names(const char* what, Name... given) {
  Names found{std::string(" ") + what + "("};
  ((found.text += std::string(found.text.back() == '(' ? "" : " ") + given), ...);
  found.text += ")";
  return found;
}
template <class... Name> Names Op(Name... given) { return names("Op", given...); }
template <class... Name> Names Outputs(Name... given) { return names("Outputs", given...); }
template <class... Name> Names Flat(Name... given) { return names("Flat", given...); }
template <class... Name> Names MainMemory(Name... given) { return names("MainMemory", given...); }
template <class... Part>
bool properties(Part... parts) {
  std::string line = "properties";
  ((line += parts.text), ...);
  return recorder::write(line);
}

}  // namespace DefProperties

// --- the macros ---------------------------------------------------------------------------------------------

#define PASTE_(A, B) A##B
#define PASTE(A, B) PASTE_(A, B)
#define RECORD [[maybe_unused]] static bool PASTE(recorded_by_line_, __LINE__) =

#define BEGIN_PKG_OP_DEFINITION(NAME) static_assert(true)
#define END_PKG_OP_DEFINITION(NAME) \
  namespace hnnx { \
  extern "C" const int* NAME##_ops_table() { \
    static const int table = 1; \
    return &table; \
  } \
  } \
  static_assert(true)
#define DEF_PACKAGE_OP(FUNCTION, OP) RECORD recorder::kernel<FUNCTION>(OP, "-", Flags::RESOURCE_HVX);
#define DEF_PACKAGE_OP_AND_COST_AND_FLAGS(FUNCTION, OP, COST, ...) \
  RECORD recorder::kernel<FUNCTION>(OP, recorder::number(StandardCosts::COST), __VA_ARGS__);
#define DEF_PACKAGE_OP_AND_COST_F_AND_FLAGS(FUNCTION, OP, COST, ...) \
  RECORD recorder::kernel<FUNCTION>(OP, recorder::number((COST)(nullptr)), __VA_ARGS__);
#define DEF_PACKAGE_PARAM_ORDER(OP, ...) \
  RECORD([] { \
    std::string line = "params " OP; \
    recorder::order(line, __VA_ARGS__); \
    return recorder::write(line); \
  })();
#define DEF_TENSOR_PROPERTIES(...) \
  namespace DefProperties { \
  RECORD properties(__VA_ARGS__); \
  }

#define DEFINE_UNIQ_TY()
#define BEGIN_PKG_OPS_OPTS_LIST() \
  namespace hnnx { \
  extern "C" const int* default_empty_ops_table() { return nullptr; } \
  }
#define DECLARE_PKG_OPS_OPTS_LIST(NAME) \
  namespace hnnx { \
  extern "C" const int* NAME##_ops_table() __attribute__((weak, alias("default_empty_ops_table"))); \
  }
#define END_PKG_OPS_OPTS_LIST()
#define INIT_PACKAGE_OP_DEF() \
  extern "C" const char* recorded() { return recorder::lines().c_str(); } \
  extern "C" int execute(const char* op, int nth, Tensor** tensors, int count) { \
    for (const recorder::Kernel& each : recorder::kernels()) { \
      if (each.op == op && nth-- == 0) return each.call({tensors, tensors + count}); \
    } \
    return -3; \
  } \
  extern "C" Tensor* tensor(int type, float scale, int offset, const std::size_t* dims, int rank, void* data) { \
    return new Tensor({static_cast<DType>(type), scale, offset}, {dims, dims + rank}, data); \
  }
#define INIT_PACKAGE_OPTIMIZATION_DEF()
#define INIT_PACKAGE_PARAM_ORDER_DEF()
#define INIT_PKG_CORE_INIT_FUNC() \
  extern "C" int op_pkg_init() { return 0; }
#define REGISTER_PACKAGE_PARAM_ORDERS()
#define REGISTER_PACKAGE_AXIS_PARAMS()
#define REGISTER_PACKAGE_PER_CHANNEL_QUANTIZED_OPS()
