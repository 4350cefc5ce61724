// Tensors in the form that functions compiled by Halide take, and what those functions call.

namespace udo {
namespace halide {

// --- the binary interface of Halide's functions ------------------------------------------------------------------

struct Type {
  std::uint8_t code;  // 0 int, 1 unsigned, 2 float
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct Dimension {
  std::int32_t min, extent, stride;
  std::uint32_t flags;
};

struct Buffer {
  std::uint64_t device;
  const void* deviceInterface;
  std::uint8_t* host;
  std::uint64_t flags;
  Type type;
  std::int32_t dimensions;
  Dimension* dim;
  void* padding;
};

inline constexpr Type f32{2, 32, 1}, f16{2, 16, 1}, u8{1, 8, 1}, i8{0, 8, 1}, u16{1, 16, 1}, i16{0, 16, 1},
    u32{1, 32, 1}, i32{0, 32, 1}, i64{0, 64, 1};

// --- views of tensors --------------------------------------------------------------------------------------------

#if defined(UDO_GPU)
/// The type of an element in functions: the text of a kernel converts halves and fixed point to floats.
inline Type typeOf(const Tensor& tensor) {
  if (tensor.isFloat() || tensor.isFixedPoint()) return f32;
  switch (tensor.type()) {
    case QNN_DATATYPE_INT_8: return i8;
    case QNN_DATATYPE_INT_16: return i16;
    case QNN_DATATYPE_UINT_16: return u16;
    case QNN_DATATYPE_INT_32: return i32;
    case QNN_DATATYPE_UINT_32: return u32;
    case QNN_DATATYPE_INT_64: return i64;
    case QNN_DATATYPE_UINT_8:
    case QNN_DATATYPE_BOOL_8: return u8;
    default: return Type{};
  }
}
#else
/// How an element is stored.
inline Type typeOf(Element element) {
  switch (element) {
    case Element::float32: return f32;
    case Element::half: return f16;
    case Element::int8: return i8;
    case Element::int16: return i16;
    case Element::uint16: return u16;
    case Element::int32: return i32;
    case Element::uint32: return u32;
    case Element::int64: return i64;
    case Element::uint8:
    case Element::boolean: return u8;
    case Element::fixed32:
    case Element::other: break;
  }
  return Type{};
}

template <class Tensor>
Type typeOf(const Tensor& tensor) {
  return typeOf(tensor.element());
}
#endif

/// Whether this processor has the instructions that functions are compiled with.
extern const bool hasVectors;

inline bool same(Type a, Type b) { return a.code == b.code && a.bits == b.bits; }

template <class Tensor>
bool isStoredAs(const Tensor& tensor, Type type) {
  return same(typeOf(tensor), type);
}

/// Lines of the kernel that read or write a tensor.
struct Lines {
  const char* tensor;
  const char* lines;
};

/// One call of a function, with its errors.
class Call {
 public:
  explicit Call(bool canRun = hasVectors) {
    message_[0] = '\0';
    if (!canRun) fail("this processor has no AVX2, which the kernel was compiled for");
  }

  /// Clears the error, for another function with the same tensors.
  Call* again() {
    message_[0] = '\0';
    return this;
  }

  /// For messages; the last of `lines` has no tensor.
  void setLines(const Lines* lines) { lines_ = lines; }
  const char* linesOf(const char* buffer) const;

  bool ok() const { return message_[0] == '\0'; }
  const char* message() const { return message_; }

  /// Whether rows are along the last axis, or all axes after theirs have one element.
  bool last() const { return last_; }
  /// Whether all tensors are aligned for vectors of HVX.
  bool aligned() const { return aligned_; }

  /// Refuses an offset that fixed point on Hexagon cannot add: it has one bit more than the stored numbers.
  void quantized(Type type, std::int32_t offset) {
#if defined(__hexagon__)
    const std::int32_t range = 1 << type.bits;
    if (type.bits <= 16 && (offset <= -2 * range || offset > range)) {
      fail("a tensor has the offset %d, which fixed point has no bits for", static_cast<int>(offset));
    }
#else
    static_cast<void>(type), static_cast<void>(offset);
#endif
  }

  /// Finds out how much memory a function needs: it ends after its last allocation, before it reads a tensor.
  void measure() { measures_ = true; }
  bool measures() const { return measures_; }
  std::size_t measured() const { return most_; }
  /// Before a function that allocates memory so many times before anything else; false if it must not be called.
  bool begins(std::uint32_t allocations) {
    again();
    left_ = allocations;
    used_ = 0;
    newest_ = nullptr;
    return !measures_ || (allocations != 0 && !isEmpty_);
  }
  void* allocate(std::size_t bytes);
  void release(void* memory);

  void foundEmpty() { isEmpty_ = true; }
  void found(const void* data) { aligned_ = aligned_ && reinterpret_cast<std::uintptr_t>(data) % 128 == 0; }
  void foundRows(bool last) { last_ = last_ && last; }
#if defined(__GNUC__)
  __attribute__((format(printf, 2, 3)))
#endif
  void fail(const char* format, ...);

  /// The status of an execution, from the result of the function.
  Status run(int returned) const {
    if (returned == 0 || measures_) return udo::ok;
    return error("%s", ok() ? "the kernel failed" : message_);
  }

 private:
  friend class Memory;

  const Lines* lines_ = nullptr;
  bool last_ = true, aligned_ = true, measures_ = false, isEmpty_ = false;
  std::uint32_t left_ = 0;
  unsigned char* memory_ = nullptr;
  unsigned char* newest_ = nullptr;  // allocation in it
  std::size_t size_ = 0, used_ = 0, most_ = 0;  // of memory
  std::size_t alone_ = 0;                       // bytes outside of it
  char message_[160];  // only the first character is set: a kernel may be faster than clearing 160 bytes
};

/// Memory for the functions of one call.  The package keeps it for later calls, of all its ops.
class Memory {
 public:
  Memory(Call& call, std::size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

 private:
  struct Block;
  static Block blocks_[];

  Call& call_;
  Block* block_;
};

/// The part of an execution that one of several threads calculates at once: of `count` parts, or a block of HTP.
struct Part {
  std::uint32_t number, count;
  bool isBlock = false;

  bool isFirst() const { return number == 0; }
  /// Where the part of a thread begins among `total` elements, at a multiple of `step`.
  std::size_t begin(std::size_t total, std::size_t step) const { return at(total, step, number); }
  std::size_t end(std::size_t total, std::size_t step) const { return at(total, step, number + 1); }

 private:
  std::size_t at(std::size_t total, std::size_t step, std::uint32_t which) const {
    const std::size_t steps = (total + step - 1) / step, found = steps * which / count * step;
    return found < total ? found : total;
  }
};

/// Rows along an axis; a negative one counts from the last.
struct Rows {
  int axis;
};

/// All axes, padded to `rank` with leading ones.
struct Whole {
  int rank;
};

/// A tensor in the form that a function takes.
class View {
 public:
  template <class Tensor>
  View(Call& call, const char*, const Tensor& tensor) : View(call, tensor) {
    if (tensor) add(tensor.size(), 1);
  }

  template <class Tensor>
  View(Call& call, const char* name, const Tensor& tensor, Rows rows) : View(call, tensor) {
    if (!tensor) return;
    const Shape shape = tensor.shape();
    const int rank = static_cast<int>(shape.rank());
    const int axis = rows.axis < 0 ? rows.axis + rank : rows.axis;
    if (axis < 0 || axis >= rank) {
      call.fail("axis is %d, but `%s` has rank %d", rows.axis, name, rank);
      return;
    }
    const auto at = static_cast<std::size_t>(axis);
    inner_ = shape.count(at + 1, shape.rank());
    size_ = shape[at];
    outer_ = shape.count(0, at);
    call.foundRows(inner_ == 1);
    add(inner_, 1);
    add(size_, inner_);
    add(outer_, inner_ * size_);
  }

  template <class Tensor>
  View(Call& call, const char* name, const Tensor& tensor, Whole whole) : View(call, tensor) {
    if (!tensor) return;
    const Shape shape = tensor.shape();
    const auto rank = static_cast<std::size_t>(whole.rank);
    if (shape.rank() > rank && shape.count(0, shape.rank() - rank) != 1) {
      call.fail("`%s` has rank %d; the kernel is for rank %d", name, static_cast<int>(shape.rank()), whole.rank);
      return;
    }
    std::size_t stride = 1;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const std::size_t extent = axis < shape.rank() ? shape[shape.rank() - 1 - axis] : 1;
      add(extent, stride);
      stride *= extent;
    }
  }

  /// Bytes of a table, which need not be aligned.
  View(const std::uint8_t* bytes, std::size_t size) {
    raw.host = const_cast<std::uint8_t*>(bytes);
    raw.type = type_ = u8;
    raw.dim = dims_;
    add(size, 1);
  }

  View(const View&) = delete;
  View& operator=(const View&) = delete;

  bool is(Type type) const { return same(type_, type); }

  /// Of rows: remove the axes after theirs, which have one element.
  void dropInner() {
    if (raw.dimensions != 3 || inner_ != 1) return;
    dims_[0] = dims_[1];
    dims_[0].stride = 1;
    dims_[1] = dims_[2];
    raw.dimensions = 2;
  }

  /// Of a flat tensor: only the elements of one part.
  template <class Tensor>
  void cutElements([[maybe_unused]] Call& call, [[maybe_unused]] const Tensor& tensor, const Part& part) {
    if (raw.dimensions == 0) return;
#if defined(UDO_HTP)
    if (part.isBlock) {
      raw.host = tensor.template blockAt<std::uint8_t>(part.number);
      call.found(raw.host);
      constexpr std::int32_t bitsOfBlock = 8 * 2048;  // `blockShape` is that of half a block for 16 bits
      dims_[0].extent = bitsOfBlock / raw.type.bits;
      return;
    }
#endif
    const auto size = static_cast<std::size_t>(dims_[0].extent);
    const std::size_t begin = part.begin(size, 128);
    raw.host += begin * (raw.type.bits / 8u);
    dims_[0].extent = static_cast<std::int32_t>(part.end(size, 128) - begin);
  }

  /// Of an output: only one part of its outermost axis with several elements; false if this part has none.
  bool cut(const Part& part) {
    std::int32_t axis = raw.dimensions - 1;
    while (axis > 0 && dims_[axis].extent <= 1) --axis;
    const bool isWhole = axis == 0;  // a single row
    const auto size = isWhole ? 1u : static_cast<std::size_t>(dims_[axis].extent);
    const std::size_t begin = part.begin(size, 1), end = part.end(size, 1);
    if (begin == end) {
      dims_[axis].extent = 0;
      return false;
    }
    if (isWhole) return dims_[0].extent > 0;
    raw.host += begin * static_cast<std::size_t>(dims_[axis].stride) * (raw.type.bits / 8u);
    dims_[axis].min = static_cast<std::int32_t>(begin);
    dims_[axis].extent = static_cast<std::int32_t>(end - begin);
    return true;
  }

  /// Begins to fetch an input into the L2 cache, unless it is in TCM: kernels read most inputs once or more, in order.
  template <class Tensor>
  void prefetch([[maybe_unused]] const Tensor& tensor) const {
#if defined(UDO_HTP) && defined(__hexagon__)
    constexpr std::uint64_t line = 128, most = 2048;  // lines: a quarter of the cache
    if (raw.host == nullptr || tensor.inTcm()) return;
    const Dimension& last = dims_[raw.dimensions - 1];
    const std::uint64_t bytes = static_cast<std::uint64_t>(last.extent) * last.stride * (raw.type.bits / 8u);
    const std::uint64_t lines = (bytes + line - 1) / line;
    const std::uint64_t area = line << 32 | line << 16 | (lines < most ? lines : most);  // stride, width, height
    asm volatile("l2fetch(%0,%1)" : : "r"(raw.host), "r"(area));
#endif
  }

  std::int32_t size() const { return dims_[0].extent; }

  Buffer raw = {};

 private:
  template <class Tensor>
  View(Call& call, const Tensor& tensor) {
    if (!tensor) return;  // an optional one that the client left out
    type_ = typeOf(tensor);
    raw.type = same(type_, f16) ? u16 : type_;  // halves are passed as their bits
    raw.dim = dims_;
#if defined(UDO_GPU)
    raw.device = reinterpret_cast<std::uintptr_t>(tensor.facts());  // for Launches: the GPU has the data
    // Bounds may depend on integers that came with the graph.
    if (type_.code != f32.code) raw.host = const_cast<std::uint8_t*>(tensor.template data<std::uint8_t>());
#else
    const void* data = this;  // not to be read
    if (!call.measures()) data = tensor.template data<std::uint8_t>();
    raw.host = static_cast<std::uint8_t*>(const_cast<void*>(data));
    call.found(data);
    call.quantized(type_, tensor.quantization().offset);
    if (tensor.size() == 0) call.foundEmpty();
#endif
    if (tensor.size() > INT32_MAX) call.fail("a tensor has more than 2^31 elements");
  }

  void add(std::size_t extent, std::size_t stride) {
    dims_[raw.dimensions++] = {0, static_cast<std::int32_t>(extent), static_cast<std::int32_t>(stride), 0};
  }

  std::size_t inner_ = 0, size_ = 0, outer_ = 0;
  Type type_ = {};
  Dimension dims_[8];  // `raw.dimensions` of them are used
};

// Machines with aligned vectors have a second function, for tensors that are aligned.
#if defined(__hexagon__)
#define UDO_HALIDE(function, ...) \
  (call.aligned() ? function##_aligned(&call, __VA_ARGS__) : function(&call, __VA_ARGS__))
#else
#define UDO_HALIDE(function, ...) function(&call, __VA_ARGS__)
#endif

}  // namespace halide
}  // namespace udo
