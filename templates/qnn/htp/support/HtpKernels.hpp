// The kernels of an op as they are registered, and the functions that HTP calls.

#include <cfenv>
#include <cstdint>
#include <new>
#include <type_traits>

namespace udo {

/// The unit whose thread runs a kernel.
enum class Unit : unsigned char { main = QHPI_RESOURCE_MAIN, hvx = QHPI_RESOURCE_HVX, hmx = QHPI_RESOURCE_HMX };

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

// What a kernel requires of one tensor.
struct Requirement {
  std::uint32_t tensor;
  std::uint32_t elements;  // one bit for each accepted element type; 0: all that the config names
  std::uint32_t layout;  // QHPI_Layout_Any: flat
  unsigned char storage;
  unsigned char memory;
};

// A kernel of an op, as it is registered.
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

// All that hooks define for an op.
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

inline std::uint32_t statusOf(Status status) { return status == ok ? QHPI_Success : QHPI_ErrorFatal; }

// Executes a kernel.  On x86-64, where the threads of HTP execute other ops too, a floating-point state that the kernel
// leaves would make those wrong: it is restored, and the kernel has failed.
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

// The function of a kernel, and the glue around it.
template <class Op, class Kernel>
struct Run {
  static std::uint32_t run(QHPI_RuntimeHandle* handle, std::uint32_t outputs, QHPI_Tensor** output,
                           std::uint32_t inputs, const QHPI_Tensor* const* input) {
    const Running running(Op::spec.name);
    ++Op::calls;
    const typename Op::Args args = Op::bind(Binding(Op::spec, outputs, output, inputs, input));
    return statusOf(keepingFloatState([&] { return Kernel::execute(handle, args, Nothing()); }));
  }
};

// The same for a kernel whose `prepare` ran when the graph was loaded.  HTP passes the tensors to `prepare` only, so they
// are kept with what it prepared.
template <class Op, class Kernel>
struct RunPrepared {
  using Ready = typename Kernel::Prepared;
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
    kept->status = Kernel::prepare(Op::bind(Binding(Op::spec, outputs, output, inputs, input)), kept->ready);
    return statusOf(kept->status);
  }

  static std::uint32_t run(QHPI_RuntimeHandle* handle, const void* data) {
    const Running running(Op::spec.name);
    Kept& kept = *static_cast<Kept*>(const_cast<void*>(data));
    if (kept.status != ok) return statusOf(kept.status);  // HTP ignores what `prepare` returned
    ++Op::calls;
    const typename Op::Args args = Op::bind(Binding(Op::spec, kept.outputs, kept.output(), kept.inputs, kept.input()));
    return statusOf(keepingFloatState([&] { return Kernel::execute(handle, args, kept.ready); }));
  }
};

// Adds a kernel: its `execute` and, if something is prepared, its `prepare`.
template <class Op, class Kernel>
KernelFacts& addKernel(OpFacts& op) {
  const std::size_t index = op.kernelCount++;
  KernelFacts& kernel = op.kernels[index < OpFacts::mostKernels ? index : 0];
  kernel = KernelFacts{};
  kernel.unit = Unit::hvx;
  kernel.sliced = Kernel::slices;
  if constexpr (std::is_same_v<typename Kernel::Prepared, Nothing>) {
    kernel.run = Run<Op, Kernel>::run;
  } else {
    using WithState = RunPrepared<Op, Kernel>;
    kernel.prepare = WithState::prepare;
    kernel.runPrepared = WithState::run;
    kernel.preparedSize = WithState::size();
  }
  return kernel;
}

// `execute` and `prepare` of a kernel's file.
template <class Op>
struct Found {
  using Args = typename Op::Args;
  using Prepared = StateOf<Op>;
  static constexpr bool slices = executesWith<Op, const Slice&>();
  static Status prepare(const Args& args, Prepared& state) { return callPrepare(args, state); }
  static Status execute(QHPI_RuntimeHandle* handle, const Args& args, const Prepared& state) {
    const Slice slice(handle);
    return callExecute(args, state, slice);
  }
};

}  // namespace glue

// Fills in what a kernel's file defines: its hooks; if they name no kernel, `execute` is the kernel.
template <class Op>
void describe(OpFacts& facts) {
  glue::checkKernel<Op, const Slice>();
  if constexpr (glue::HasHooks<Op>::value) {
    Hooks<Op> op(facts);
    hooks(op);
  }
  if (facts.kernelCount != 0) return;
  using Args = const typename Op::Args&;
  using State = typename Op::State;
  static_assert(!glue::executes<Args, State&> || glue::executes<Args, const State&>,
                "HTP keeps what is prepared as constant bytes: execute() takes `const State&`");
  if constexpr (glue::executes<Args> || glue::Defined<State>::value || glue::Found<Op>::slices) {
    glue::addKernel<Op, glue::Found<Op>>(facts);
  }
}

}  // namespace udo
