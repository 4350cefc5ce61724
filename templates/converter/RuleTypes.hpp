// Auto-generated part of every converter op package with rules; regenerating rewrites this file.
//
// What rules calculate with: numbers and lists that behave as in Python, from which they were translated.  Where there
// is no answer (a number too large, an index outside of its list) a Fault is thrown, and the package answers with an error.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ConverterUtils.hpp"

namespace udo {

/// Why a rule has no answer.
struct Fault {
  std::string text;
};

inline constexpr std::int64_t mostSteps = 1000000;       // loops of a rule, and items of a list
inline constexpr std::int64_t exact = 1ll << 53;         // whole numbers up to here are numbers of a double, too
inline thread_local std::int64_t steps = 0;

inline void step() {
  if (++steps > mostSteps) throw Fault{"it does not come to an end"};
}

/// A whole number of 64 bits that says so where it becomes too large; it knows whether a dimension that can change is in it.
class Int {
 public:
  Int() = default;
  explicit Int(std::int64_t value, bool dynamic = false) : value_(value), dynamic_(dynamic) {}

  std::int64_t value() const { return value_; }
  bool dynamic() const { return dynamic_; }

  Int operator-() const {
    if (value_ == least) large();
    return Int(-value_, dynamic_);
  }
  Int operator+() const { return *this; }
  friend Int operator+(Int a, Int b) {
    if (b.value_ > 0 ? a.value_ > most - b.value_ : a.value_ < least - b.value_) large();
    return Int(a.value_ + b.value_, a.dynamic_ || b.dynamic_);
  }
  friend Int operator-(Int a, Int b) {
    if (b.value_ < 0 ? a.value_ > most + b.value_ : a.value_ < least + b.value_) large();
    return Int(a.value_ - b.value_, a.dynamic_ || b.dynamic_);
  }
  friend Int operator*(Int a, Int b) {
    const bool dynamic = a.dynamic_ || b.dynamic_;
    if (a.value_ == 0 || b.value_ == 0) return Int(0, dynamic);
    if ((a.value_ == -1 && b.value_ == least) || (b.value_ == -1 && a.value_ == least)) large();
    const auto product =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(a.value_) * static_cast<std::uint64_t>(b.value_));
    if (product / b.value_ != a.value_) large();
    return Int(product, dynamic);
  }
  friend bool operator==(Int a, Int b) { return a.value_ == b.value_; }
  friend bool operator!=(Int a, Int b) { return a.value_ != b.value_; }
  friend bool operator<(Int a, Int b) { return a.value_ < b.value_; }
  friend bool operator<=(Int a, Int b) { return a.value_ <= b.value_; }
  friend bool operator>(Int a, Int b) { return a.value_ > b.value_; }
  friend bool operator>=(Int a, Int b) { return a.value_ >= b.value_; }

  [[noreturn]] static void large() { throw Fault{"a number is too large"}; }
  [[noreturn]] static void zero() { throw Fault{"a division by zero"}; }

 private:
  static constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  static constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t value_ = 0;
  bool dynamic_ = false;
};

/// Rounded down, as Python's `//`.
inline Int floordiv(Int a, Int b) {
  const bool dynamic = a.dynamic() || b.dynamic();
  if (b.value() == 0) Int::zero();
  if (b.value() == -1) return Int(0, dynamic) - a;  // the one quotient that can be too large
  const std::int64_t cut = a.value() / b.value();
  const bool down = a.value() % b.value() != 0 && (a.value() < 0) != (b.value() < 0);
  return Int(down ? cut - 1 : cut, dynamic);
}

/// What floordiv leaves: it has the sign of b, as Python's `%`.
inline Int modulo(Int a, Int b) {
  const bool dynamic = a.dynamic() || b.dynamic();
  if (b.value() == 0) Int::zero();
  if (b.value() == -1) return Int(0, dynamic);
  const std::int64_t rest = a.value() % b.value();
  return Int(rest != 0 && (rest < 0) != (b.value() < 0) ? rest + b.value() : rest, dynamic);
}

inline namespace literals {
inline Int operator""_i(unsigned long long value) { return Int(static_cast<std::int64_t>(value)); }
}  // namespace literals

/// A whole number as one with a fraction.
inline double real(Int whole) {
  if (whole.value() < -exact || whole.value() > exact) Int::large();
  return static_cast<double>(whole.value());
}

inline double divided(double a, double b) {
  if (b == 0) Int::zero();
  return a / b;
}

/// A number with a fraction as a whole one; cut as Python's `int` does it.
inline Int whole(double real) {
  const double cut = std::trunc(real);
  if (!(cut >= -9223372036854775808.0 && cut < 9223372036854775808.0)) Int::large();
  return Int(static_cast<std::int64_t>(cut));
}
inline Int whole(Int number) { return number; }
inline Int whole(bool truth) { return Int(truth ? 1 : 0); }
inline Int ceil(double real) { return whole(std::ceil(real)); }
inline Int ceil(Int number) { return number; }
inline Int floor(double real) { return whole(std::floor(real)); }
inline Int floor(Int number) { return number; }
inline double absolute(double real) { return std::fabs(real); }
inline Int absolute(Int number) { return number < Int(0) ? -number : number; }

/// A list as Python has it: its copies are the same list, a negative index counts from the end.
template <typename T>
class List {
 public:
  List() : items_(std::make_shared<std::vector<T>>()) {}
  List(std::initializer_list<T> items) : items_(std::make_shared<std::vector<T>>(items)) {}

  std::size_t count() const { return items_->size(); }
  Int size() const { return Int(static_cast<std::int64_t>(count())); }
  T operator[](Int index) const { return (*items_)[place(index)]; }
  void set(Int index, const T& value) { (*items_)[place(index)] = value; }
  void append(const T& value) {
    if (static_cast<std::int64_t>(count()) >= mostSteps) throw Fault{"it does not come to an end"};
    items_->push_back(value);
  }

  /// Items as Python's `[from:to:by]` takes them.
  List slice(std::optional<Int> from, std::optional<Int> to = {}, std::optional<Int> by = {}) const {
    const std::int64_t stride = by ? by->value() : 1;
    const auto length = static_cast<std::int64_t>(count());
    if (stride == 0) throw Fault{"the step of a slice or a range is zero"};
    const std::int64_t lowest = stride < 0 ? -1 : 0;
    const std::int64_t highest = stride < 0 ? length - 1 : length;
    const auto border = [&](const std::optional<Int>& given, std::int64_t otherwise) {
      if (!given) return otherwise;
      const std::int64_t at = given->value() < 0 ? given->value() + length : given->value();
      return at < lowest ? lowest : at > highest ? highest : at;
    };
    const std::int64_t begin = border(from, stride < 0 ? highest : lowest);
    const std::int64_t end = border(to, stride < 0 ? lowest : highest);
    List found;
    if (stride > 0) {
      for (std::int64_t at = begin; at < end; at = stride < end - at ? at + stride : end) found.append((*items_)[at]);
    } else {
      for (std::int64_t at = begin; at > end; at = stride > end - at ? at + stride : end) found.append((*items_)[at]);
    }
    return found;
  }

  bool has(const T& value) const {
    for (const T& each : *items_) {
      if (each == value) return true;
    }
    return false;
  }

  friend List operator+(const List& a, const List& b) {
    List found;
    for (const T& each : *a.items_) found.append(each);
    for (const T& each : *b.items_) found.append(each);
    return found;
  }
  friend List operator*(const List& list, Int times) {
    List found;
    if (list.count() == 0) return found;
    for (std::int64_t i = 0; i < times.value(); ++i) {
      for (const T& each : *list.items_) found.append(each);
    }
    return found;
  }
  friend List operator*(Int times, const List& list) { return list * times; }
  friend bool operator==(const List& a, const List& b) { return *a.items_ == *b.items_; }
  friend bool operator!=(const List& a, const List& b) { return !(a == b); }

  /// A loop sees what becomes of the list meanwhile, as in Python.
  class Iterator {
   public:
    Iterator(std::shared_ptr<const std::vector<T>> items, std::size_t at) : items_(std::move(items)), at_(at) {}
    T operator*() const {
      step();
      return (*items_)[at_];
    }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator!=(const Iterator&) const { return at_ < items_->size(); }

   private:
    std::shared_ptr<const std::vector<T>> items_;
    std::size_t at_;
  };
  Iterator begin() const { return Iterator(items_, 0); }
  Iterator end() const { return Iterator(items_, 0); }

 private:
  std::size_t place(Int index) const {
    const auto length = static_cast<std::int64_t>(count());
    const std::int64_t at = index.value() < 0 && index.value() >= -length ? index.value() + length : index.value();
    if (at < 0 || at >= length) throw Fault{"an index is outside of its list"};
    return static_cast<std::size_t>(at);
  }

  std::shared_ptr<std::vector<T>> items_;
};

/// Numbers from one to another, as Python's `range`.
class range {
 public:
  explicit range(Int end) : range(Int(0), end) {}
  range(Int begin, Int end, Int by = Int(1)) : at_(begin), end_(end), by_(by.value()) {
    if (by_ == 0) throw Fault{"the step of a slice or a range is zero"};
  }
  Int operator*() const {
    step();
    return at_;
  }
  range& operator++() {
    // The last one may be as near to the largest number as the step is long.
    const std::int64_t at = at_.value();
    const auto left = by_ > 0 ? static_cast<std::uint64_t>(end_.value()) - static_cast<std::uint64_t>(at)
                              : static_cast<std::uint64_t>(at) - static_cast<std::uint64_t>(end_.value());
    const auto wide = by_ > 0 ? static_cast<std::uint64_t>(by_) : 0 - static_cast<std::uint64_t>(by_);
    at_ = left <= wide ? end_ : Int(at + by_);
    return *this;
  }
  bool operator!=(const range&) const { return by_ > 0 ? at_ < end_ : at_ > end_; }
  range begin() const { return *this; }
  range end() const { return *this; }

 private:
  Int at_, end_;
  std::int64_t by_;
};

/// Items of two lists, side by side, as long as both have some; `enumerate` gives numbers for the first list.
template <typename A, typename B>
class Pairs {
 public:
  Pairs(List<B> second, std::optional<List<A>> first) : first_(std::move(first)), second_(std::move(second)) {}
  std::pair<A, B> operator*() const {
    step();
    const Int at(at_);
    if constexpr (std::is_same_v<A, Int>) {
      return {first_ ? (*first_)[at] : at, second_[at]};
    } else {
      return {(*first_)[at], second_[at]};
    }
  }
  Pairs& operator++() {
    ++at_;
    return *this;
  }
  bool operator!=(const Pairs&) const { return Int(at_) < second_.size() && (!first_ || Int(at_) < first_->size()); }
  Pairs begin() const { return *this; }
  Pairs end() const { return *this; }

 private:
  std::optional<List<A>> first_;
  List<B> second_;
  std::int64_t at_ = 0;
};

template <typename T>
Pairs<Int, T> enumerate(const List<T>& list) {
  return Pairs<Int, T>(list, std::nullopt);
}

template <typename A, typename B>
Pairs<A, B> zip(const List<A>& first, const List<B>& second) {
  return Pairs<A, B>(second, first);
}

/// A list made in a loop: `[item(x) for x in items if wanted(x)]`.
template <typename Items, typename Make>
auto listed(const Items& items, Make item) {
  List<decltype(item(*items.begin()))> found;
  for (const auto& each : items) found.append(item(each));
  return found;
}
template <typename Items, typename Make, typename Choose>
auto listed(const Items& items, Make item, Choose wanted) {
  List<decltype(item(*items.begin()))> found;
  for (const auto& each : items) {
    if (wanted(each)) found.append(item(each));
  }
  return found;
}

template <typename T>
List<T> copied(const List<T>& list) {
  return list + List<T>();
}

inline Int sum(const List<Int>& list) {
  Int total(0);
  for (std::size_t i = 0; i < list.count(); ++i) total = total + list[Int(static_cast<std::int64_t>(i))];
  return total;
}

inline Int product(const List<Int>& list) {
  Int total(1);
  for (std::size_t i = 0; i < list.count(); ++i) total = total * list[Int(static_cast<std::int64_t>(i))];
  return total;
}

template <typename T>
T least(const List<T>& list) {
  if (list.count() == 0) throw Fault{"a list is empty, and has neither a least nor a greatest item"};
  T found = list[Int(0)];
  for (std::size_t i = 1; i < list.count(); ++i) {
    const T each = list[Int(static_cast<std::int64_t>(i))];
    if (each < found) found = each;
  }
  return found;
}

template <typename T>
T greatest(const List<T>& list) {
  if (list.count() == 0) throw Fault{"a list is empty, and has neither a least nor a greatest item"};
  T found = list[Int(0)];
  for (std::size_t i = 1; i < list.count(); ++i) {
    const T each = list[Int(static_cast<std::int64_t>(i))];
    if (each > found) found = each;
  }
  return found;
}

/// A list of which each item is taken: it must have so many.
template <typename T>
List<T> taken(const List<T>& list, std::size_t count) {
  if (list.count() != count) throw Fault{"a list has not as many items as are taken from it"};
  return copied(list);
}

// --- texts of errors -----------------------------------------------------------------------------------------------

inline std::string text(const char* plain) { return plain; }
inline std::string text(const std::string& plain) { return plain; }
inline std::string text(Int number) { return std::to_string(number.value()); }
inline std::string text(const List<Int>& list) {
  std::string all = "[";
  for (std::size_t i = 0; i < list.count(); ++i) {
    all += (i == 0 ? "" : ", ") + text(list[Int(static_cast<std::int64_t>(i))]);
  }
  return all + "]";
}

/// The error of a rule's own.
template <typename... Parts>
Fault wrong(const Parts&... parts) {
  return Fault{(std::string() + ... + text(parts))};
}

// --- what a rule asks ----------------------------------------------------------------------------------------------

/// An input, or a parameter that is a tensor; perhaps there is none.
class Tensor {
 public:
  Tensor() : Tensor("", nullptr) {}
  Tensor(const char* name, const Qnn_Tensor_t* tensor) : name_(name), tensor_(tensor) {}

  bool isThere() const { return tensor_ != nullptr; }

  List<Int> shape() const {
    const Qnn_TensorV1_t& it = there();
    const std::uint8_t* const changing =
        tensor_->version == QNN_TENSOR_VERSION_2 ? tensor_->v2.isDynamicDimensions : nullptr;
    if (it.rank != 0 && it.dimensions == nullptr) throw Fault{std::string("the shape is not known of ") + name_};
    List<Int> found;
    for (std::uint32_t axis = 0; axis < it.rank; ++axis) {
      found.append(Int(it.dimensions[axis], changing != nullptr && changing[axis] != 0));
    }
    return found;
  }

  Qnn_DataType_t type() const { return there().dataType; }

  bool hasData() const { return bytes().data != nullptr; }
  List<Int> wholeNumbers() const { return numbers<Int>(); }
  List<double> realNumbers() const { return numbers<double>(); }

 private:
  const Qnn_TensorV1_t& there() const {
    if (tensor_ == nullptr) throw Fault{std::string("something that is not there is used: ") + name_};
    return tensor_->v1;  // v1 and v2 agree in all that is read here
  }

  Qnn_ClientBuffer_t bytes() const {
    return there().memType == QNN_TENSORMEMTYPE_RAW ? there().clientBuf : Qnn_ClientBuffer_t{nullptr, 0};
  }

  template <typename T>
  List<T> numbers() const {
    switch (type()) {
      case QNN_DATATYPE_INT_8: return read<T, std::int8_t>();
      case QNN_DATATYPE_INT_16: return read<T, std::int16_t>();
      case QNN_DATATYPE_INT_32: return read<T, std::int32_t>();
      case QNN_DATATYPE_INT_64: return read<T, std::int64_t>();
      case QNN_DATATYPE_BOOL_8:
      case QNN_DATATYPE_UINT_8: return read<T, std::uint8_t>();
      case QNN_DATATYPE_UINT_16: return read<T, std::uint16_t>();
      case QNN_DATATYPE_UINT_32: return read<T, std::uint32_t>();
      case QNN_DATATYPE_FLOAT_32:
        if constexpr (std::is_same_v<T, double>) return read<T, float>();
        [[fallthrough]];
      default: unreadable();
    }
  }

  template <typename T, typename Stored>
  List<T> read() const {
    const Int count = product(shape());
    const Qnn_ClientBuffer_t from = bytes();
    if (from.data == nullptr || count.value() > mostSteps ||
        from.dataSize < static_cast<std::uint64_t>(count.value()) * sizeof(Stored)) {
      unreadable();
    }
    List<T> found;
    for (std::int64_t i = 0; i < count.value(); ++i) {
      Stored value;
      std::memcpy(&value, static_cast<const char*>(from.data) + i * static_cast<std::int64_t>(sizeof value), sizeof value);
      if constexpr (std::is_same_v<T, double>) {
        found.append(static_cast<double>(value));
      } else {
        found.append(Int(static_cast<std::int64_t>(value)));
      }
    }
    return found;
  }

  [[noreturn]] void unreadable() const {
    throw Fault{std::string("its data are not known, or of a type that rules cannot read: ") + name_};
  }

  const char* name_;
  const Qnn_Tensor_t* tensor_;
};

/// An op in a model, by the places and names of its config.
class Asked {
 public:
  explicit Asked(const Inference& op) : op_(op) {}

  /// An input; `behind`: from the end, so many stand behind it.
  Tensor input(const char* name, std::uint32_t place) const { return Tensor(name, at(place)); }
  Tensor inputFromEnd(const char* name, std::uint32_t behind) const {
    return Tensor(name, op_.inputs() > behind ? at(op_.inputs() - 1 - behind) : nullptr);
  }
  List<Tensor> inputs(const char* name, std::uint32_t first, std::uint32_t behind) const {
    List<Tensor> found;
    for (std::uint32_t i = first; i + behind < op_.inputs(); ++i) found.append(Tensor(name, at(i)));
    return found;
  }
  std::uint32_t outputCount() const { return op_.outputs(); }
  bool hasInputs(std::uint32_t first, std::uint32_t behind) const { return op_.inputs() > first + behind; }
  bool hasOutput(std::uint32_t place) const { return op_.outputs() > place; }
  Int outputs(std::uint32_t first, std::uint32_t behind) const {
    return Int(op_.outputs() > first + behind ? op_.outputs() - first - behind : 0);
  }

  bool has(const char* name) const { return op_.param(name) != nullptr; }
  Tensor tensor(const char* name) const {
    const Qnn_Param_t* const found = op_.param(name);
    return Tensor(name, found != nullptr && found->paramType == QNN_PARAMTYPE_TENSOR ? &found->tensorParam : nullptr);
  }
  Int whole(const char* name, std::optional<std::int64_t> otherwise = {}) const {
    const Qnn_Scalar_t* const value = scalar(name);
    if (value == nullptr) return otherwise ? Int(*otherwise) : lacking<Int>(name);
    switch (value->dataType) {
      case QNN_DATATYPE_INT_8: return Int(value->int8Value);
      case QNN_DATATYPE_INT_16: return Int(value->int16Value);
      case QNN_DATATYPE_INT_32: return Int(value->int32Value);
      case QNN_DATATYPE_INT_64: return Int(value->int64Value);
      case QNN_DATATYPE_UINT_8: return Int(value->uint8Value);
      case QNN_DATATYPE_UINT_16: return Int(value->uint16Value);
      case QNN_DATATYPE_UINT_32: return Int(value->uint32Value);
      case QNN_DATATYPE_BOOL_8: return Int(value->bool8Value != 0 ? 1 : 0);
      case QNN_DATATYPE_UINT_64:
        if (value->uint64Value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) Int::large();
        return Int(static_cast<std::int64_t>(value->uint64Value));
      default: throw Fault{std::string("this parameter is no whole number: ") + name};
    }
  }
  double number(const char* name, std::optional<double> otherwise = {}) const {
    const Qnn_Scalar_t* const value = scalar(name);
    if (value == nullptr) return otherwise ? *otherwise : lacking<double>(name);
    if (value->dataType == QNN_DATATYPE_FLOAT_32) return value->floatValue;
    return real(whole(name));
  }
  bool truth(const char* name, std::optional<bool> otherwise = {}) const {
    if (scalar(name) == nullptr) return otherwise ? *otherwise : lacking<bool>(name);
    return whole(name) != Int(0);
  }
  std::string word(const char* name, const char* otherwise = nullptr) const {
    const Qnn_Scalar_t* const value = scalar(name);
    if (value == nullptr) return otherwise != nullptr ? otherwise : lacking<std::string>(name);
    if (value->dataType != static_cast<Qnn_DataType_t>(0x0608) || value->stringValue == nullptr) {
      throw Fault{std::string("this parameter is no text: ") + name};
    }
    return value->stringValue;
  }

 private:
  const Qnn_Tensor_t* at(std::uint32_t place) const {
    const Qnn_Tensor_t* const tensor = op_.tensor(place);
    return tensor != nullptr && tensor->v1.type == QNN_TENSOR_TYPE_NULL ? nullptr : tensor;
  }
  const Qnn_Scalar_t* scalar(const char* name) const {
    const Qnn_Param_t* const found = op_.param(name);
    return found != nullptr && found->paramType == QNN_PARAMTYPE_SCALAR ? &found->scalarParam : nullptr;
  }
  template <typename T>
  static T lacking(const char* name) {
    throw Fault{std::string("something that is not there is used: ") + name};
  }

  const Inference& op_;
};

// --- what a rule answers -------------------------------------------------------------------------------------------

/// The answers of a rule, output by output; `V` is a shape, or a data type.
template <typename V>
class Answers {
 public:
  struct One {
    const char* name;
    std::uint32_t place;
    V value;
  };

  explicit Answers(std::uint32_t outputs) : outputs_(outputs) {}

  Answers& of(const char* name, std::uint32_t place, const V& value) {
    all_.push_back({name, place, value});
    return *this;
  }
  Answers& ofFromEnd(const char* name, std::uint32_t behind, const V& value) {
    if (outputs_ > behind) all_.push_back({name, outputs_ - 1 - behind, value});
    return *this;
  }
  Answers& ofEach(const char* name, std::uint32_t first, std::uint32_t behind, const List<V>& values) {
    const std::uint32_t there = outputs_ > first + behind ? outputs_ - first - behind : 0;
    if (values.count() != there) {
      throw wrong("the rule answers for ", values.size(), " of the output ", name, "; there are ", Int(there));
    }
    for (std::uint32_t i = 0; i < there; ++i) all_.push_back({name, first + i, values[Int(i)]});
    return *this;
  }
  const std::vector<One>& all() const { return all_; }

 private:
  std::uint32_t outputs_;
  std::vector<One> all_;
};

using Shapes = Answers<List<Int>>;
using Types = Answers<Qnn_DataType_t>;

inline void check(const Shapes::One& answer) {
  bool fits = answer.value.count() <= mostAxes;
  for (std::size_t axis = 0; fits && axis < answer.value.count(); ++axis) {
    const std::int64_t extent = answer.value[Int(static_cast<std::int64_t>(axis))].value();
    fits = extent > 0 && extent <= std::numeric_limits<std::uint32_t>::max();
  }
  if (!fits) throw wrong("the shape of ", answer.name, " would be ", answer.value);
}

inline void check(const Types::One&) {}

inline void write(Inference& op, const Shapes::One& answer) {
  std::uint32_t extents[mostAxes] = {};
  bool dynamic[mostAxes] = {};
  for (std::size_t axis = 0; axis < answer.value.count(); ++axis) {
    const Int extent = answer.value[Int(static_cast<std::int64_t>(axis))];
    extents[axis] = static_cast<std::uint32_t>(extent.value());
    dynamic[axis] = extent.dynamic();
  }
  op.setShape(answer.place, extents, static_cast<std::uint32_t>(answer.value.count()));
  op.setDynamic(answer.place, dynamic);
}

inline void write(Inference& op, const Types::One& answer) { op.setType(answer.place, answer.value); }

/// Asks a rule, and hands on what it answers; outputs that the model does not have are left out.
template <typename Rule>
void answer(Inference& op, Rule rule) {
  if (!op.ok()) return;
  steps = 0;
  try {
    const auto answers = rule(Asked(op));
    for (int really = 0; really < 2; ++really) {  // all of it is right, or nothing is written
      for (const auto& each : answers.all()) {
        if (each.place >= op.outputs()) continue;
        if (really != 0) {
          write(op, each);
        } else {
          check(each);
        }
      }
    }
  } catch (const Fault& fault) {
    op.fail(QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE, "%s", fault.text.c_str());
  } catch (const std::exception&) {
    op.fail(QNN_OP_PACKAGE_ERROR_GENERAL, "there is not enough memory for this rule");
  }
}

}  // namespace udo
