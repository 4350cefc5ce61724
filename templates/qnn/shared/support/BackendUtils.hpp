// The description of an op as data: the types of the generated tables, which validation reads.

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "QnnLog.h"
#include "QnnOpPackage.h"

namespace udo {

/// What a function of a kernel returns: `ok`, or the result of `error(…)`.
using Status = Qnn_ErrorHandle_t;
inline constexpr Status ok = QNN_SUCCESS;

/// Writes one line to the QNN log, or to stderr if the client has no log.
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void log(QnnLog_Level_t level, const char* format, ...);

/// Writes an error to the QNN log, after the name of the op that runs, and returns the status for the caller.
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
Status error(const char* format, ...);
Status errorList(const char* format, std::va_list list);

// Makes errors go to stderr, too: not every client shows its log (ONNX Runtime does not show that of libQnnHtp).
void showErrors();

// Functions of the QNN op package interface that all backends share: the log of the client.
Qnn_ErrorHandle_t logInitialize(QnnLog_Callback_t callback, QnnLog_Level_t level);
Qnn_ErrorHandle_t logSetLevel(QnnLog_Level_t level);
Qnn_ErrorHandle_t logTerminate();

// The op that this thread runs, for messages.
class Running {
 public:
  explicit Running(const char* op);
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  const char* outer_;
};

// The result of a kernel that is not written yet.
Status notImplemented(const char* op, const char* file);

/// A view of an array.
template <class T>
struct List {
  const T* items = nullptr;
  std::size_t count = 0;

  constexpr List() = default;
  template <std::size_t N>
  constexpr List(const T (&array)[N]) : items(array), count(N) {}
  constexpr List(const T* first, std::size_t number) : items(first), count(number) {}
  constexpr const T* begin() const { return items; }
  constexpr const T* end() const { return items + count; }
};

// What `getInfo` of the QNN op package interface returns.
template <std::size_t N>
constexpr QnnOpPackage_Info_t packageInfo(const char* package, const char* (&ops)[N], const Qnn_ApiVersion_t& version) {
  return {package, ops, nullptr, N, nullptr, 0, nullptr, &version, nullptr, nullptr, {0}};
}

// The default of a tensor or a parameter, if a backend supports no other value.  All lists have the same length; an
// empty list has no value of that kind.
struct OnlyValue {
  List<std::int64_t> whole;    // if all numbers are integers
  List<double> reals;
  List<std::uint16_t> halves;  // the same as bits of FLOAT_16
  const char* text;
  // True if `count` elements of a type are the default; one number covers any count.
  bool (*is)(const OnlyValue& only, Qnn_DataType_t type, const void* data, std::size_t count);
};
bool isOnly(const OnlyValue& only, Qnn_DataType_t type, const void* data, std::size_t count);

// One input or output of an op, as its config describes it.
struct TensorSpec {
  const char* name;
  List<Qnn_DataType_t> types;
  List<std::uint32_t> ranks;  // none: any rank
  bool mandatory;
  bool repeated;
  const OnlyValue* only = nullptr;  // null: any value
};

// One parameter of an op.
struct ParamSpec {
  const char* name;
  List<Qnn_DataType_t> types;
  List<std::uint32_t> ranks;  // of a tensor parameter; none: any rank
  bool scalar;
  bool mandatory;
  std::uint32_t enumerators;  // 0: no enumeration
  const OnlyValue* only = nullptr;
};

// The default of a parameter.
struct ParamDefault {
  std::uint32_t param;
  Qnn_DataType_t type;
  const void* data;
  std::uint32_t bytes;
  List<std::uint32_t> dims;
};

// The data type of a text; older headers of the SDK lack its name.
inline constexpr auto textType = static_cast<Qnn_DataType_t>(0x0608);

// One op.
struct OpSpec {
  const char* name;
  List<TensorSpec> inputs;
  List<TensorSpec> outputs;
  List<ParamSpec> params;
  List<ParamDefault> defaults = {};  // for parameters that a kernel gets by position
};

// The row of a table that has this name; null if there is none.
template <class Row>
const Row* find(List<Row> rows, const char* name) {
  for (const Row& each : rows) {
    if (name != nullptr && std::strcmp(each.name, name) == 0) return &each;
  }
  return nullptr;
}

inline bool isNeeded(const TensorSpec& spec) { return spec.mandatory || spec.repeated; }
inline bool isNeeded(const ParamSpec& spec) { return spec.mandatory; }

// How many tensors or parameters a node must have: all up to the last one that it needs.
template <class Spec>
std::size_t fewestOf(List<Spec> specs) {
  std::size_t count = specs.count;
  while (count > 0 && !isNeeded(specs.items[count - 1])) --count;
  return count;
}

}  // namespace udo
