// What a kernel can give HTP besides `execute`: other kernels of the op, the unit that runs them, slices for several
// threads, placement of tensors, costs, rewrites and tiles.  A kernel's file that has any of these defines
// `void hooks(Hooks& op)`; the registration contains what it sets.

#include <cfenv>
#include <cstdint>
#include <new>
#include <type_traits>

namespace udo {

/// The unit whose thread runs a kernel.
enum class Unit : unsigned char { main = QHPI_RESOURCE_MAIN, hvx = QHPI_RESOURCE_HVX, hmx = QHPI_RESOURCE_HMX };

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

/// The part of the work that one thread does, for kernels that are `sliced()`.
class Slice {
 public:
  explicit Slice(QHPI_RuntimeHandle* handle) : handle_(handle) {}

  std::uint32_t number() const { return qhpi_slice_number(handle_); }
  std::uint32_t count() const {
    const std::uint32_t slices = qhpi_num_slices(handle_);
    return slices == 0 ? 1 : slices;
  }

  /// The elements `begin` … `end - 1` of `total` that belong to this slice; all but the last end at a multiple of `step`.
  struct Range {
    std::size_t begin;
    std::size_t end;
  };
  Range of(std::size_t total, std::size_t step = 1) const {
    const std::size_t steps = (total + step - 1) / step;
    const std::size_t begin = steps * number() / count() * step;
    const std::size_t end = steps * (number() + 1) / count() * step;
    return {begin < total ? begin : total, end < total ? end : total};
  }

  /// The zeroed memory that all slices of one execution share; its size is the argument of `sliced(size)`.
  void* shared() const { return qhpi_sync_block(handle_); }

 private:
  QHPI_RuntimeHandle* handle_;
};

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

/// What a kernel requires of one tensor.
struct Requirement {
  std::uint32_t tensor;
  std::uint32_t elements;  // one bit for each accepted element type; 0: all that the config names
  Layout layout;
  Storage storage;
  Memory memory;
};

/// A kernel of an op, as it is registered.
struct KernelFacts {
  static constexpr std::size_t mostRequirements = 32;

  QHPI_Plugin_Function run;
  QHPI_Precompute_Function prepare;
  QHPI_Plugin_Precomputed_Function runPrepared;
  std::uint32_t preparedSize;
  QHPI_Cost_Function cost;
  QHPI_Kernel_Predicate condition;
  Unit unit;
  bool inPlace;
  bool sliced;
  std::uint32_t sharedSize;
  std::size_t requirementCount;  // may exceed mostRequirements, which registration refuses
  Requirement requirements[mostRequirements];
};

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
    requirement(static_cast<std::uint32_t>(tensor)).elements |= 1u << qhpiOf(element);
    return *this;
  }

  /// It needs this tensor in this layout, storage and memory; by default a tensor is flat, in one piece, in any memory.
  template <class Tensor>
  Kernel wants(Tensor tensor, Layout layout, Storage storage = Storage::direct, Memory memory = Memory::any) const {
    Requirement& found = requirement(static_cast<std::uint32_t>(tensor));
    found.layout = layout;
    found.storage = storage;
    found.memory = memory;
    return *this;
  }

  /// About how many cycles it takes: `float cycles(const udo::Inputs& inputs)`.
  template <float (*Cycles)(const Inputs&)>
  Kernel costs() const {
    facts_.cost = glue::costOf<Cycles>();
    return *this;
  }

  /// It fits only if this is true: `bool fits(const udo::Inputs& inputs)`.
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
      facts_.requirements[index] = {tensor, 0, Layout::flat, Storage::direct, Memory::any};
      ++facts_.requirementCount;
    }
    return facts_.requirements[index];
  }

  KernelFacts& facts_;
};

/// All that hooks define for an op.
struct OpFacts {
  static constexpr std::size_t mostKernels = 8;

  std::size_t kernelCount;  // may exceed mostKernels, which registration refuses
  KernelFacts kernels[mostKernels];
  bool sameTypes;
  QHPI_RewriteOpFunc earlyRewrite;
  QHPI_RewriteOpFunc lateRewrite;
  QHPI_TileShapeRequired tileShape;
  QHPI_TileShapeLegalized legalTile;
  QHPI_BuildTileOfOp buildTile;
  std::uint32_t tiledOutput;
};

namespace glue {

template <class Execute>
struct Call;

/// How `execute` is called: with the arguments, what was prepared, the slice.
template <class Args>
struct Call<Status (*)(const Args&)> {
  static constexpr bool slices = false;
  static Status run(Status (*execute)(const Args&), const Args& args, QHPI_RuntimeHandle*) { return execute(args); }
};
template <class Args>
struct Call<Status (*)(const Args&, const Slice&)> {
  static constexpr bool slices = true;
  static Status run(Status (*execute)(const Args&, const Slice&), const Args& args, QHPI_RuntimeHandle* handle) {
    return execute(args, Slice(handle));
  }
};
template <class Args, class Ready>
struct Call<Status (*)(const Args&, const Ready&)> {
  using Prepared = Ready;
  static constexpr bool slices = false;
  static Status run(Status (*execute)(const Args&, const Ready&), const Args& args, const Ready& ready,
                    QHPI_RuntimeHandle*) {
    return execute(args, ready);
  }
};
template <class Args, class Ready>
struct Call<Status (*)(const Args&, const Ready&, const Slice&)> {
  using Prepared = Ready;
  static constexpr bool slices = true;
  static Status run(Status (*execute)(const Args&, const Ready&, const Slice&), const Args& args, const Ready& ready,
                    QHPI_RuntimeHandle* handle) {
    return execute(args, ready, Slice(handle));
  }
};

inline std::uint32_t statusOf(Status status) { return status == ok ? QHPI_Success : QHPI_ErrorFatal; }

/// Executes a kernel.  On x86-64, where the threads of HTP execute other ops too, a floating-point state that the kernel
/// leaves would make those wrong: it is restored, and the kernel has failed.
template <class Step>
Status keepingFloatState(const Step& step) {
#if defined(__x86_64__)
  std::fenv_t before, after;
  std::fegetenv(&before);
  const Status status = step();
  std::fegetenv(&after);
  constexpr unsigned flags = 0x3F;  // of exceptions that were raised
  if (((before.__mxcsr ^ after.__mxcsr) & ~flags) == 0 && before.__control_word == after.__control_word) return status;
  std::fesetenv(&before);
  return error("changed the floating-point state of its thread and left it so (MXCSR 0x%x, before 0x%x)",
               after.__mxcsr & ~flags, before.__mxcsr & ~flags);
#else
  return step();
#endif
}

/// The function of a kernel, and the glue around it.
template <class Op, auto Execute>
struct Run {
  static std::uint32_t run(QHPI_RuntimeHandle* handle, std::uint32_t outputs, QHPI_Tensor** output,
                           std::uint32_t inputs, const QHPI_Tensor* const* input) {
    const Running running(Op::spec.name);
    ++Op::calls;
    const typename Op::Args args = Op::bind(Binding(Op::spec, outputs, output, inputs, input));
    return statusOf(keepingFloatState([&] { return Call<decltype(Execute)>::run(Execute, args, handle); }));
  }
};

/// The same for a kernel whose `prepare` ran when the graph was loaded.  HTP passes the tensors to `prepare` only, so they
/// are kept with what it prepared.
template <class Op, auto Prepare, auto Execute>
struct RunPrepared {
  using Ready = typename Call<decltype(Execute)>::Prepared;
  static_assert(std::is_trivially_copyable_v<Ready> && std::is_trivially_destructible_v<Ready>,
                "what is prepared must be plain data: HTP keeps it as bytes");
  static_assert(alignof(Ready) <= 8, "what is prepared is kept at multiples of 8 bytes");

  struct Kept {
    Ready ready;
    Status status;
    std::uint32_t outputs;
    std::uint32_t inputs;

    // They are behind it.
    QHPI_Tensor** output() { return reinterpret_cast<QHPI_Tensor**>(this + 1); }
    const QHPI_Tensor** input() { return const_cast<const QHPI_Tensor**>(output() + Op::spec.outputs.count); }
  };

  static std::uint32_t size() {
    const std::size_t tensors = Op::spec.outputs.count + mostInputs(Op::spec);
    return static_cast<std::uint32_t>(sizeof(Kept) + tensors * sizeof(QHPI_Tensor*));
  }

  static std::uint32_t prepare(QHPI_RuntimeHandle*, void* data, std::uint32_t outputs, QHPI_Tensor** output,
                               std::uint32_t inputs, const QHPI_Tensor* const* input) {
    const Running running(Op::spec.name);
    if (outputs > Op::spec.outputs.count || inputs > mostInputs(Op::spec)) {
      return statusOf(error("has %u outputs and %u inputs, more than its config names", outputs, inputs));
    }
    Kept* kept = new (data) Kept{};  // HTP does not clear it
    kept->outputs = outputs;
    kept->inputs = inputs;
    for (std::uint32_t i = 0; i < outputs; ++i) kept->output()[i] = output[i];
    for (std::uint32_t i = 0; i < inputs; ++i) kept->input()[i] = input[i];
    kept->status = Prepare(Op::bind(Binding(Op::spec, outputs, output, inputs, input)), kept->ready);
    return statusOf(kept->status);
  }

  static std::uint32_t run(QHPI_RuntimeHandle* handle, const void* data) {
    const Running running(Op::spec.name);
    Kept& kept = *static_cast<Kept*>(const_cast<void*>(data));
    if (kept.status != ok) return statusOf(kept.status);  // HTP ignores what `prepare` returned
    ++Op::calls;
    const typename Op::Args args = Op::bind(Binding(Op::spec, kept.outputs, kept.output(), kept.inputs, kept.input()));
    return statusOf(keepingFloatState([&] { return Call<decltype(Execute)>::run(Execute, args, kept.ready, handle); }));
  }
};

/// A node that the package replaces counts as a call: no kernel of the op will run for it.
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
    KernelFacts& facts = next();
    facts.run = glue::Run<Op, Execute>::run;
    facts.sliced = glue::Call<decltype(Execute)>::slices;
    return Kernel(facts);
  }

  /// A kernel whose first part runs once, when the graph is loaded: `udo::Status prepare(const Args&, Ready&)`, and
  /// `udo::Status f(const Args&, const Ready&)`.  `prepare` may read shapes, quantization, parameters, and the data of
  /// constant inputs that the kernel `wants` in `Memory::ddr`; all other data does not exist yet.
  template <auto Prepare, auto Execute>
  Kernel kernel() const {
    using Prepared = glue::RunPrepared<Op, Prepare, Execute>;
    KernelFacts& facts = next();
    facts.prepare = Prepared::prepare;
    facts.runPrepared = Prepared::run;
    facts.preparedSize = Prepared::size();
    facts.sliced = glue::Call<decltype(Execute)>::slices;
    return Kernel(facts);
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
  KernelFacts& next() const {
    const std::size_t index = facts_.kernelCount++;
    KernelFacts& facts = facts_.kernels[index < OpFacts::mostKernels ? index : 0];
    facts = KernelFacts{};
    facts.unit = Unit::hvx;
    return facts;
  }

  OpFacts& facts_;
};

namespace glue {

/// `execute` and `prepare` of a kernel's file as functions with fixed signatures.
template <class Op>
struct Found {
  using Args = typename Op::Args;
  using State = StateOf<Op>;
  static Status prepareState(const Args& args, State& state) { return callPrepare(args, state); }
  static Status plain(const Args& args) { return execute(args); }
  static Status sliced(const Args& args, const Slice& slice) { return execute(args, slice); }
  static Status withState(const Args& args, const State& state) { return callExecute(args, state); }
  static Status withStateSliced(const Args& args, const State& state, const Slice& slice) {
    return callExecute(args, state, slice);
  }
};

/// Adds `execute` as the kernel of an op whose hooks name none.
template <class Op>
void addExecute(const Hooks<Op>& op) {
  using Args = const typename Op::Args&;
  using State = typename Op::State;
  using Functions = Found<Op>;
  constexpr bool slices = executes<Args, const Slice&> || executes<Args, const State&, const Slice&>;
  static_assert(!executes<Args, State&> || executes<Args, const State&>,
                "HTP keeps what is prepared as constant bytes: execute() takes `const State&`");
  if constexpr (Defined<State>::value && slices) {
    op.template kernel<Functions::prepareState, Functions::withStateSliced>();
  } else if constexpr (Defined<State>::value) {
    op.template kernel<Functions::prepareState, Functions::withState>();
  } else if constexpr (slices) {
    op.template kernel<Functions::sliced>();
  } else if constexpr (executes<Args>) {
    op.template kernel<Functions::plain>();
  }
}

}  // namespace glue

/// Fills in what a kernel's file defines: its hooks; if they name no kernel, `execute` is the kernel.
template <class Op>
void describe(OpFacts& facts) {
  glue::checkKernel<Op, const Slice>();
  Hooks<Op> op(facts);
  if constexpr (glue::HasHooks<Op>::value) hooks(op);
  if (facts.kernelCount == 0) glue::addExecute(op);
}

}  // namespace udo
