// The tensors of a kernel, the same on CPU, HTP and DSP: typed and named, without copies and without the heap.
//
/// A kernel is `udo::Status execute(const Args& args)`.  Its file may add
///
///   struct State { … };                                          what is prepared once
///   udo::Status prepare(const Args& args, State& state);         fills it, before the first execution
///   udo::Status execute(const Args& args, const State& state);   gets it
///
/// `prepare` can read shapes, quantization and parameters; data of inputs does not exist yet.  `execute` may have one more
/// argument for features of one backend: `const udo::Slice&` on HTP, `udo::Dsp&` on DSP.

#include <type_traits>
#include <utility>

namespace udo {

/// What all views have in common.  BackendTensor has the features of one backend.
class View : public BackendTensor {
 public:
  using BackendTensor::BackendTensor;

  /// From BackendTensor: `explicit operator bool`, false for an optional tensor that the client left out; `rank()`;
  /// `quantization()`, scale 1 and offset 0 if the tensor is not quantized; `element()`.
  Shape shape() const { return Shape(dims(), rank()); }
  std::size_t size() const {
    std::size_t product = 1;
    for (std::size_t axis = 0; axis < rank(); ++axis) product *= dims()[axis];
    return product;
  }

  bool isFloat() const { return element() == Element::float32; }
  bool isHalf() const { return element() == Element::half; }
  bool isInt8() const { return element() == Element::int8; }
  bool isUint8() const { return element() == Element::uint8; }  // on CPU and DSP also fixed point, on HTP all types of 8 bits
  bool isBool() const { return element() == Element::boolean; }
  bool isInt16() const { return element() == Element::int16; }
  bool isUint16() const { return element() == Element::uint16; }  // on HTP all types of 16 bits except floats
  bool isInt32() const { return element() == Element::int32 || element() == Element::fixed32; }
  bool isUint32() const { return element() == Element::uint32; }

 protected:
  template <class T>
  T* as() const {
    return static_cast<T*>(address());
  }

  /// A stored number as a real one; fixed point is dequantized.
  template <class T>
  float toReal(const T& stored) const {
    if constexpr (std::is_integral_v<T> && (sizeof(T) <= 2 || std::is_same_v<T, std::int32_t>)) {
      return quantization().toReal(static_cast<std::int32_t>(stored));
    } else {
      return static_cast<float>(stored);
    }
  }

  /// The reverse; rounds and saturates.
  template <class T>
  T toStored(float real) const {
    if constexpr (!std::is_integral_v<T>) {
      return static_cast<T>(real);
    } else if constexpr (sizeof(T) <= 2 || std::is_same_v<T, std::int32_t>) {
      using Limits = std::numeric_limits<T>;
      return static_cast<T>(quantization().toStored(real, Limits::min(), Limits::max()));
    } else {
      return nearest<T>(real);
    }
  }
};

/// An input (or a tensor parameter) whose elements are of type T.
template <class T>
class Input : public View {
 public:
  using View::View;
  const T* data() const { return as<const T>(); }
  template <class U>
  const U* data() const {  // like AnyInput, for kernels of configs with one type or several
    return as<const U>();
  }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size(); }
  const T& operator[](std::size_t index) const { return data()[index]; }

  /// One element as a real number; fixed point is dequantized.
  float real(std::size_t index) const { return toReal(data()[index]); }

  /// The elements of one block of a tensor in blocks (HTP).
  const T* block(std::size_t index) const { return blockAt<const T>(index); }
};

/// An output whose elements are of type T.
template <class T>
class Output : public View {
 public:
  using View::View;
  T* data() const { return as<T>(); }
  template <class U>
  U* data() const {
    return as<U>();
  }
  T* begin() const { return data(); }
  T* end() const { return data() + size(); }
  T& operator[](std::size_t index) const { return data()[index]; }

  /// Writes one element from a real number; rounds and saturates unless T is a float.
  void setReal(std::size_t index, float real) const { data()[index] = toStored<T>(real); }

  /// The elements of one block of a tensor in blocks (HTP).
  T* block(std::size_t index) const { return blockAt<T>(index); }
};

/// An input of several possible types; the actual one is known when the op runs.
class AnyInput : public View {
 public:
  using View::View;

  /// The elements, which must be of type T: call `isFloat()` and the like first.
  template <class T>
  const T* data() const {
    return as<const T>();
  }

  /// One element as a real number, regardless of its type; fixed point is dequantized.
  float real(std::size_t index) const {
    if (isFloat()) return data<float>()[index];
    if (isUint8()) return toReal(data<std::uint8_t>()[index]);
    if (isUint16()) return toReal(data<std::uint16_t>()[index]);
    return rare(index);
  }

 private:
  // A separate function, so that the one above is small enough to be inlined into a kernel's loop.
  float rare(std::size_t index) const {
    if (isHalf()) return toReal(data<Half>()[index]);
    switch (element()) {
      case Element::int8: return toReal(data<std::int8_t>()[index]);
      case Element::boolean: return data<std::uint8_t>()[index] != 0 ? 1.0f : 0.0f;
      case Element::int16: return toReal(data<std::int16_t>()[index]);
      case Element::int32:
      case Element::fixed32: return toReal(data<std::int32_t>()[index]);
      case Element::uint32: return toReal(data<std::uint32_t>()[index]);
      case Element::int64: return toReal(data<std::int64_t>()[index]);
      default: return toReal(data<std::uint8_t>()[index]);
    }
  }
};

/// An output of several possible types.
class AnyOutput : public View {
 public:
  using View::View;

  /// The elements, which must be of type T: call `isFloat()` and the like first.
  template <class T>
  T* data() const {
    return as<T>();
  }

  /// Writes one element from a real number, regardless of the type; rounds and saturates.
  void setReal(std::size_t index, float real) const {
    if (isFloat()) return set<float>(index, real);
    if (isUint8()) return set<std::uint8_t>(index, real);
    if (isUint16()) return set<std::uint16_t>(index, real);
    rare(index, real);
  }

 private:
  void rare(std::size_t index, float real) const {
    if (isHalf()) return set<Half>(index, real);
    switch (element()) {
      case Element::int8: return set<std::int8_t>(index, real);
      case Element::boolean: return void(data<std::uint8_t>()[index] = real != 0.0f ? 1 : 0);
      case Element::int16: return set<std::int16_t>(index, real);
      case Element::int32:
      case Element::fixed32: return set<std::int32_t>(index, real);
      case Element::uint32: return set<std::uint32_t>(index, real);
      case Element::int64: return set<std::int64_t>(index, real);
      default: return set<std::uint8_t>(index, real);
    }
  }

  template <class T>
  void set(std::size_t index, float real) const {
    data<T>()[index] = toStored<T>(real);
  }
};

// --- how the generated tables find a kernel ----------------------------------------------------------------------

class Slice;  // HTP
class Dsp;    // DSP
template <class Op>
class Hooks;  // HTP
class Binding;
struct OpFacts;
struct OpSpec;
struct Counter;

template <class ArgsOfOp, class StateOfOp>
struct OpTypes {
  using Args = ArgsOfOp;
  using State = StateOfOp;
};

// The members of an op that the generated tables define, and (in its kernel's file) the function that they call.
#define UDO_OP                                  \
  struct State;                                 \
  struct Op : udo::OpTypes<Args, State> {       \
    static Args bind(const udo::Binding& node); \
    static void describe(udo::OpFacts& facts);  \
    static const udo::OpSpec spec;              \
    static udo::Counter& calls;                 \
  };                                            \
  using Hooks = udo::Hooks<Op>;                 \
  UDO_DESCRIBE
#if defined(UDO_NO_KERNEL)
#define UDO_DESCRIBE
#else
#define UDO_DESCRIBE \
  void Op::describe(udo::OpFacts& facts) { udo::describe<Op>(facts); }
#endif

// The generated header uses describe<Op>() before the kernel's file declares State, `prepare` and `execute`, which are
// looked up in the namespace of Args where the compiler instantiates the templates.  For function templates the standard
// allows that right after the use and at the end of the file, and requires no diagnostic if the two differ
// ([temp.point]).  GCC, Clang (hence zig, the NDK and the Hexagon tools) and MSVC use the end of the file.  A compiler
// that used the first place would find no `execute`, and checkKernel() would not compile: it cannot choose a wrong
// function silently.  So a header may use this namespace only inside describe<Op>(), which is not constexpr and returns
// void: compilers instantiate constexpr functions and deduced return types at once.
namespace glue {

template <class T, class = void>
struct Defined : std::false_type {};
template <class T>
struct Defined<T, std::void_t<decltype(sizeof(T))>> : std::true_type {};

template <class Void, class... Given>
struct Executes : std::false_type {};
template <class... Given>
struct Executes<std::void_t<decltype(execute(std::declval<Given>()...))>, Given...> : std::true_type {};

template <class Void, class... Given>
struct Prepares : std::false_type {};
template <class... Given>
struct Prepares<std::void_t<decltype(prepare(std::declval<Given>()...))>, Given...> : std::true_type {};

template <class Op, class = void>
struct HasHooks : std::false_type {};
template <class Op>
struct HasHooks<Op, std::void_t<decltype(hooks(std::declval<Hooks<Op>&>()))>> : std::true_type {};

template <class... Given>
inline constexpr bool executes = Executes<void, Given...>::value;
template <class... Given>
inline constexpr bool prepares = Prepares<void, Given...>::value;

// Whether the kernel has an `execute` with this last argument, with or without a State.
template <class Op, class Last>
constexpr bool executesWith() {
  using Args = const typename Op::Args&;
  return executes<Args, Last> || executes<Args, typename Op::State&, Last>;
}

// The State of a kernel, or nothing.
struct Nothing {};
template <class Op>
using StateOf = std::conditional_t<Defined<typename Op::State>::value, typename Op::State, Nothing>;

// Checks what a kernel's file defines; `Last` is the additional argument of `execute` that this backend has.
template <class Op, class... Last>
void checkKernel() {
  using Args = const typename Op::Args&;
  using State = typename Op::State&;
  constexpr bool plain = executes<Args> || executes<Args, State>;
  constexpr bool forHtp = executesWith<Op, const Slice&>();
  constexpr bool forDsp = executesWith<Op, Dsp&>();
  static_assert(plain || forHtp || forDsp || HasHooks<Op>::value,
                "the kernel's file must define `udo::Status execute(const Args& args)` in the namespace of Args, outside "
                "of an unnamed one; a file that only uses this header needs `#define UDO_NO_KERNEL` before it");
  static_assert(!HasHooks<Op>::value || Defined<Hooks<Op>>::value,
                "hooks() is for HTP alone: put this kernel into kernels/htp, or hooks() between #if defined(UDO_HTP) "
                "and #endif; in a package for HTP, run `udogen generate` again, which adds the code for hooks");
  static_assert(!forHtp || (std::is_same_v<Last, const Slice> || ...),
                "execute() takes a udo::Slice, which HTP alone has: put this kernel into kernels/htp");
  static_assert(!forDsp || (std::is_same_v<Last, Dsp> || ...),
                "execute() takes a udo::Dsp, which DSP V65 and V66 alone have: put this kernel into kernels/dsp");
  static_assert(!Defined<typename Op::State>::value || prepares<Args, State> || (prepares<Args, State, Last&> || ...),
                "`struct State` needs `udo::Status prepare(const Args& args, State& state)`, which fills it");
  static_assert(Defined<typename Op::State>::value || !(prepares<Args, State> || executes<Args, State>),
                "prepare() and execute() take a State: define `struct State` in the namespace of Args");
}

// Calls `execute` with the arguments that it takes.
template <class Args, class State, class... Last>
Status callExecute(const Args& args, State& state, Last&... last) {
  if constexpr (executes<const Args&, State&, Last&...>) {
    return execute(args, state, last...);
  } else if constexpr (executes<const Args&, State&>) {
    return execute(args, state);
  } else if constexpr (executes<const Args&, Last&...>) {
    return execute(args, last...);
  } else {
    return execute(args);
  }
}

// Calls `prepare`, if the kernel has one.
template <class Args, class State, class... Last>
Status callPrepare(const Args& args, State& state, Last&... last) {
  if constexpr (std::is_same_v<State, Nothing>) {
    return ok;
  } else if constexpr (prepares<const Args&, State&, Last&...>) {
    return prepare(args, state, last...);
  } else {
    return prepare(args, state);
  }
}

}  // namespace glue
}  // namespace udo
