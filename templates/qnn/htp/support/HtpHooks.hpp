// What a kernel can give HTP besides `execute`: other kernels of the op, the unit that runs them, slices for several
// threads, placement of tensors, costs, rewrites and tiles.  A kernel's file that has any of these defines
// `void hooks(Hooks& op)`; the registration contains what it sets.

#include <cstdint>

namespace udo {

/// The layout of a tensor in memory; a kernel gets flat tensors unless it requests another layout.
enum class Layout : std::uint32_t {
  flat = QHPI_Layout_Any,  // row-major, with 4 or 5 dimensions, depending on its rank
  nchw = QHPI_Layout_NCHW,
  depth32 = QHPI_Layout_Depth32,
  weights8x4 = QHPI_Layout_Weights8x4,
  crouton8 = QHPI_Layout_Crouton_8,
  crouton16 = QHPI_Layout_Crouton_16,
  crouton32 = QHPI_Layout_Crouton_32,
  crouton4x1 = QHPI_Layout_Crouton4x1,
  crouton2x2 = QHPI_Layout_Crouton2x2,
  wideCrouton8 = QHPI_Layout_WideCrouton_8,
  wideCrouton32 = QHPI_Layout_WideCrouton_32,
  wideCrouton2x2 = QHPI_Layout_WideCrouton2x2
};

/// Whether a tensor is one piece (`data()`) or blocks (`blocks()`); croutons are blocks.
enum class Storage : unsigned char {
  direct = QHPI_Storage_Direct,
  indirect = QHPI_Storage_Indirect,
  any = QHPI_Storage_Direct_OR_Indirect
};

enum class Memory : unsigned char { ddr = QHPI_MemLoc_DDR_Only, tcm = QHPI_MemLoc_TCM_Only, any = QHPI_MemLoc_DDR_OR_TCM };

/// What is known about the inputs before they have data; for costs and conditions.
class Inputs {
 public:
  Inputs(std::uint32_t count, const QHPI_Tensor* const* tensors) : count_(count), tensors_(tensors) {}

  /// Shape, type and quantization of an input: `inputs[Tensor::x]`.  Its data must not be read.
  template <class Tensor>
  AnyInput operator[](Tensor tensor) const {
    const std::size_t index = static_cast<std::size_t>(tensor);
    return index < count_ ? AnyInput(tensors_[index]) : AnyInput();
  }

 private:
  std::uint32_t count_;
  const QHPI_Tensor* const* tensors_;
};

namespace glue {

// The element type that HTP delivers for an element that a kernel names.
inline std::uint32_t qhpiOf(Element element) {
  switch (element) {
    case Element::float32: return QHPI_Float32;
    case Element::half: return QHPI_Float16;
    case Element::int16:
    case Element::uint16: return QHPI_QUInt16;
    case Element::int32:
    case Element::uint32: return QHPI_Int32;
    case Element::fixed32: return QHPI_QInt32;
    case Element::int64: return QHPI_Int64;
    default: return QHPI_QUInt8;
  }
}

/// Runtimes up to SDK 2.49 call a cost function as documented, with (count, inputs); from 2.50 on a handle comes first.
/// A count is small and an address is not, so the second argument shows which convention the runtime uses.
template <float (*Cycles)(const Inputs&)>
float anyCost(std::uintptr_t first, std::uintptr_t second, std::uintptr_t third) {
  constexpr std::uintptr_t mostInputs = 4096;
  const bool handleFirst = second < mostInputs;
  const std::uintptr_t inputs = handleFirst ? third : second;
  return Cycles(Inputs(static_cast<std::uint32_t>(handleFirst ? second : first),
                       reinterpret_cast<const QHPI_Tensor* const*>(inputs)));
}

template <float (*Cycles)(const Inputs&)>
QHPI_Cost_Function costOf() {
  return reinterpret_cast<QHPI_Cost_Function>(reinterpret_cast<void*>(anyCost<Cycles>));
}

}  // namespace glue

/// A kernel of an op; HTP takes the first one that fits, in the order in which `hooks` names them.
class Kernel {
 public:
  explicit Kernel(KernelFacts& facts) : facts_(facts) {}

  /// The unit it runs on; `Unit::hvx` by default.
  Kernel on(Unit unit) const {
    facts_.unit = unit;
    return *this;
  }

  /// Several threads may run it at once, each with a Slice; they share `sharedSize` bytes that begin as zeros.
  Kernel sliced(std::uint32_t sharedSize = 0) const {
    facts_.sliced = true;
    facts_.sharedSize = sharedSize;
    return *this;
  }

  /// The first output may use the memory of the first input.
  Kernel inPlace() const {
    facts_.inPlace = true;
    return *this;
  }

  /// It takes this tensor with this element type only; may be called several times for one tensor.
  template <class Tensor>
  Kernel takes(Tensor tensor, Element element) const {
    requirement(static_cast<std::uint32_t>(tensor)).elements |= 1u << glue::qhpiOf(element);
    return *this;
  }

  /// It needs this tensor in this layout, storage and memory; by default a tensor is flat, in one piece, in any memory.
  template <class Tensor>
  Kernel wants(Tensor tensor, Layout layout, Storage storage = Storage::direct, Memory memory = Memory::any) const {
    Requirement& required = requirement(static_cast<std::uint32_t>(tensor));
    required.layout = static_cast<std::uint32_t>(layout);
    required.storage = static_cast<unsigned char>(storage);
    required.memory = static_cast<unsigned char>(memory);
    return *this;
  }

  /// About how many cycles it takes: `float cycles(const udo::Inputs& inputs)`.
  template <float (*Cycles)(const Inputs&)>
  Kernel costs() const {
    facts_.cost = glue::costOf<Cycles>();
    return *this;
  }

  /// It fits only if this is true: `bool fits(const udo::Inputs& inputs)`, or `bool fits(const udo::Node& op)`.
  template <bool (*Fits)(const Node&)>
  Kernel when() const {
    facts_.condition = [](const QHPI_Op* op, std::uint32_t, const QHPI_Tensor* const*) {
      return static_cast<std::uint32_t>(Fits(Node(op)));
    };
    return *this;
  }
  template <bool (*Fits)(const Inputs&)>
  Kernel when() const {
    facts_.condition = [](const QHPI_Op*, const std::uint32_t count, const QHPI_Tensor* const* inputs) {
      return static_cast<std::uint32_t>(Fits(Inputs(count, inputs)));
    };
    return *this;
  }

 private:
  Requirement& requirement(std::uint32_t tensor) const {
    std::size_t index = 0;
    while (index < facts_.requirementCount && index < KernelFacts::mostRequirements && facts_.requirements[index].tensor != tensor) ++index;
    if (index == KernelFacts::mostRequirements) {
      facts_.requirementCount = KernelFacts::mostRequirements + 1;
      return facts_.requirements[0];
    }
    if (index == facts_.requirementCount) {
      facts_.requirements[index] = {tensor, 0, QHPI_Layout_Any, QHPI_Storage_Direct, QHPI_MemLoc_DDR_OR_TCM};
      ++facts_.requirementCount;
    }
    return facts_.requirements[index];
  }

  KernelFacts& facts_;
};

namespace glue {

// `<tuple>` takes a tenth of the time of a file.
template <class First, class...>
struct FirstOf {
  using Type = First;
};

// A kernel that hooks name: besides the arguments it takes what was prepared, the slice, or both.
template <auto Prepare, auto Execute, class Function = decltype(Execute)>
struct Named;
template <auto Prepare, auto Execute, class Args, class... More>
struct Named<Prepare, Execute, Status (*)(const Args&, const More&...)> {
  static constexpr bool slices = (std::is_same_v<More, Slice> || ...);
  using Prepared = std::conditional_t<std::is_same_v<decltype(Prepare), std::nullptr_t>, Nothing,
                                      typename FirstOf<More..., Nothing>::Type>;
  static Status prepare(const Args& args, Prepared& ready) { return Prepare(args, ready); }
  static Status execute(QHPI_RuntimeHandle* handle, const Args& args, [[maybe_unused]] const Prepared& ready) {
    [[maybe_unused]] const Slice slice(handle);
    if constexpr (sizeof...(More) == 2) {
      return Execute(args, ready, slice);
    } else if constexpr (sizeof...(More) == 0) {
      return Execute(args);
    } else if constexpr (slices) {
      return Execute(args, slice);
    } else {
      return Execute(args, ready);
    }
  }
};

// A node that the package replaces counts as a call: no kernel of the op will run for it.
template <class Op, Node (*Rewrite)(const Node&)>
const QHPI_Op* rewritten(const QHPI_Op* op) {
  const QHPI_Op* const made = Rewrite(Node(op)).handle();
  if (made != op) ++Op::calls;
  return made;
}

}  // namespace glue

/// The argument of `hooks`: everything that can be set for one op.
template <class Op>
class Hooks {
 public:
  explicit Hooks(OpFacts& facts) : facts_(facts) {}

  /// A kernel: `udo::Status f(const Args&)`; a second argument `const udo::Slice&` makes it `sliced()`.
  template <auto Execute>
  Kernel kernel() const {
    return Kernel(glue::addKernel<Op, glue::Named<nullptr, Execute>>(facts_));
  }

  /// A kernel whose first part runs once, when the graph is loaded: `udo::Status prepare(const Args&, Ready&)`, and
  /// `udo::Status f(const Args&, const Ready&)`.  `prepare` may read shapes, quantization, parameters, and the data of
  /// constant inputs that the kernel `wants` in `Memory::ddr`; all other data does not exist yet.
  template <auto Prepare, auto Execute>
  Kernel kernel() const {
    return Kernel(glue::addKernel<Op, glue::Named<Prepare, Execute>>(facts_));
  }

  /// Tensors for which the config allows the same types have the same type: other combinations get no records.
  void sameTypes() const { facts_.sameTypes = true; }

  /// Replaces the op by others before it is cut into tiles: `udo::Node f(const udo::Node& op)`; `op` itself to keep it.
  template <Node (*Rewrite)(const Node&)>
  void earlyRewrite() const {
    facts_.earlyRewrite = glue::rewritten<Op, Rewrite>;
  }

  /// The same after tiling, before layouts and memory are chosen.
  template <Node (*Rewrite)(const Node&)>
  void lateRewrite() const {
    facts_.lateRewrite = glue::rewritten<Op, Rewrite>;
  }

  /// How one output may be cut into tiles that fit in TCM: `udo::Shape required(const udo::Node& op)` returns the step of
  /// each axis (`udo::whole`: not cut), `udo::Node build(const udo::Node& op, const udo::Shape& start, const
  /// udo::Shape& extent)` makes the op for one tile; `udo::sameTileOfInputs` does it for elementwise ops.
  template <Shape (*Required)(const Node&), Node (*Build)(const Node&, const Shape&, const Shape&) = sameTileOfInputs>
  void tiles(std::uint32_t output = 0) const {
    facts_.tileShape = [](const QHPI_Op* op) { return toQhpi(Required(Node(op))); };
    facts_.buildTile = [](const QHPI_Op* op, const QHPI_Shape* start, const QHPI_Shape* extent) {
      return Build(Node(op), shapeOf(*start), shapeOf(*extent)).handle();
    };
    facts_.tiledOutput = output;
  }

  /// Enlarges a tile that HTP proposes: `udo::Shape legal(const udo::Node& op, const udo::Shape& tile)`.
  template <Shape (*Legal)(const Node&, const Shape&)>
  void legalTiles() const {
    facts_.legalTile = [](const QHPI_Op* op, const QHPI_Shape* tile) { return toQhpi(Legal(Node(op), shapeOf(*tile))); };
  }

 private:
  OpFacts& facts_;
};

}  // namespace udo
