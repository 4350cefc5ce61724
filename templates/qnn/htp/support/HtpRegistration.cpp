#include <cstring>
#include <new>

namespace udo {
namespace {

// Zeroed memory that is never freed, because HTP keeps pointers to it.  It is from `operator new`, which the libraries
// of the DSP have.
template <class T>
T* forever(std::size_t count) {
  const std::size_t bytes = (count == 0 ? 1 : count) * sizeof(T);
  void* const memory = ::operator new(bytes);
  return memory == nullptr ? nullptr : static_cast<T*>(std::memset(memory, 0, bytes));
}

bool allows(List<std::uint32_t> ranks, bool five) {
  if (ranks.count == 0) return true;
  for (const std::uint32_t rank : ranks) {
    if ((rank == 5) == five) return true;
  }
  return false;
}

// The element types of one tensor, without repetition.
struct Elements {
  static constexpr std::size_t most = 9;  // HTP delivers no more than eight
  std::uint32_t items[most];
  std::size_t count;

  bool operator==(const Elements& other) const {
    return count == other.count && std::memcmp(items, other.items, count * sizeof *items) == 0;
  }
};

// libQnnHtp tries all records of an op: more of them take minutes and gigabytes.
constexpr std::uint32_t mostRecords = 8192;

// Instead of an element type: the input is left out.
constexpr std::uint32_t leftOut = 0xffff;

Elements elementsOf(const TensorSpec& spec, std::uint32_t accepted) {
  Elements found = {};
  for (const Qnn_DataType_t type : spec.types) {
    const std::uint32_t element = elementOf(type);
    bool known = accepted != 0 && (accepted >> element & 1u) == 0;
    for (std::size_t i = 0; i < found.count; ++i) known = known || found.items[i] == element;
    if (!known && found.count < Elements::most) found.items[found.count++] = element;
  }
  return found;
}

// The records of one op, kernel by kernel.
class Records {
 public:
  Records(const OpEntry& op, const OpFacts& facts)
      : spec_(*op.spec),
        facts_(facts),
        tensors_(spec_.inputs.count + spec_.outputs.count),
        choices_(forever<Elements>(tensors_)),
        same_(forever<std::size_t>(tensors_)),
        at_(forever<std::size_t>(tensors_)) {}

  ~Records() {
    ::operator delete(choices_);
    ::operator delete(same_);
    ::operator delete(at_);
  }
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  // Makes all records; null if there is not enough memory, or the hooks of the op are invalid.
  QHPI_Kernel_v1* make(std::uint32_t& count) {
    if (choices_ == nullptr || same_ == nullptr || at_ == nullptr || !sound()) return nullptr;
    for (kernel_ = 0; kernel_ < facts_.kernelCount; ++kernel_) each();
    if (count_ > mostRecords) {
      error("%s: its tensors may have their data types in more than %u combinations, and HTP tries each: let the config "
            "name fewer types, or call op.sameTypes() in hooks()", spec_.name, mostRecords);
      return nullptr;
    }
    QHPI_Kernel_v1* const made = forever<QHPI_Kernel_v1>(count_);
    if (made == nullptr) return nullptr;
    records_ = made;
    count_ = 0;
    for (kernel_ = 0; kernel_ < facts_.kernelCount; ++kernel_) each();
    count = count_;
    return complete_ ? made : nullptr;
  }

 private:
  bool sound() const {
    if (facts_.kernelCount == 0) {
      error("%s: its file defines no execute(), and hooks() names no kernel", spec_.name);
      return false;
    }
    bool fits = facts_.kernelCount <= OpFacts::mostKernels;
    for (std::size_t i = 0; fits && i < facts_.kernelCount; ++i) {
      fits = facts_.kernels[i].requirementCount <= KernelFacts::mostRequirements;
    }
    if (!fits) {
      error("%s: hooks() names more than %zu kernels, or more than %zu tensors of one", spec_.name, OpFacts::mostKernels,
            KernelFacts::mostRequirements);
    }
    return fits;
  }

  const TensorSpec& tensor(std::size_t index) const {
    return index < spec_.inputs.count ? spec_.inputs.items[index] : spec_.outputs.items[index - spec_.inputs.count];
  }

  const Requirement* requirement(std::size_t index) const {
    const KernelFacts& kernel = facts_.kernels[kernel_];
    for (std::size_t i = 0; i < kernel.requirementCount; ++i) {
      if (kernel.requirements[i].tensor == index) return &kernel.requirements[i];
    }
    return nullptr;
  }

  // Visits every record of the kernel: the first call counts them, the second one makes them.
  void each() {
    bool five = true;
    bool free = false;
    for (std::size_t i = 0; i < tensors_; ++i) {
      const Requirement* const required = requirement(i);
      choices_[i] = elementsOf(tensor(i), required != nullptr ? required->elements : 0);
      if (choices_[i].count == 0) {
        log(QNN_LOG_LEVEL_WARN, "%s: kernel %zu takes no data type of `%s`; it is left out", spec_.name, kernel_,
            tensor(i).name);
        return;
      }
      at_[i] = 0;
      five = five && allows(tensor(i).ranks, true);
      free = free || (allows(tensor(i).ranks, true) && allows(tensor(i).ranks, false));
    }
    for (std::size_t i = 0; i < tensors_; ++i) same_[i] = sameAs(i);
    for (std::size_t i = 0; i < tensors_; ++i) {
      if (same_[i] != i) choices_[i].count = 1;
      if (isOptional(i) && choices_[i].count < Elements::most) choices_[i].items[choices_[i].count++] = leftOut;
    }
    const std::size_t fewest = fewestOf(spec_.params);
    for (bool more = true; more && count_ <= mostRecords;) {
      const std::size_t most = mostInputs(spec_) - spec_.inputs.count;
      for (std::size_t params = fewest; endsOnce() && params <= most; ++params) {
        if (free || !five) add(false, params);
        if (five || free) add(true, params);
      }
      more = false;
      for (std::size_t i = 0; i < tensors_ && !more; ++i) {
        more = ++at_[i] < choices_[i].count;
        if (!more) at_[i] = 0;
      }
    }
  }

  bool isOptional(std::size_t index) const {
    return index < spec_.inputs.count && !tensor(index).mandatory && !tensor(index).repeated;
  }

  // The tensor whose type this one has: with sameTypes() the first one that allows the same types, else itself.
  std::size_t sameAs(std::size_t index) const {
    if (!facts_.sameTypes) return index;
    for (std::size_t i = 0; i < tensors_; ++i) {
      if (!isOptional(i) && choices_[i] == choices_[index]) return i;
    }
    return index;
  }

  std::uint32_t element(std::size_t index) const {
    const std::uint32_t own = choices_[index].items[at_[index]];
    return own == leftOut ? own : choices_[same_[index]].items[at_[same_[index]]];
  }

  bool isLeftOut(std::size_t index) const { return element(index) == leftOut; }

  // Whether no input follows one that is left out.
  bool endsOnce() const {
    for (std::size_t i = 1; i < spec_.inputs.count; ++i) {
      if (isLeftOut(i - 1) && !isLeftOut(i)) return false;
    }
    return true;
  }

  // Adds one record: these element types, this flat layout, this many parameters.
  void add(bool five, std::size_t params) {
    const std::uint32_t index = count_++;
    if (records_ == nullptr) return;
    const KernelFacts& facts = facts_.kernels[kernel_];
    const std::size_t inputs = spec_.inputs.count;
    QHPI_Tensor_Signature_v1* const in = forever<QHPI_Tensor_Signature_v1>(inputs + params);
    QHPI_Tensor_Signature_v1* const out = forever<QHPI_Tensor_Signature_v1>(spec_.outputs.count);
    const char* const name = nameOf(facts, index);
    complete_ = complete_ && in != nullptr && out != nullptr && name != nullptr;
    if (!complete_) return;
    for (std::size_t i = 0; i < inputs; ++i) in[i] = signature(i, five);
    for (std::size_t i = 0; i < params; ++i) {
      const List<std::uint32_t> ranks = i < spec_.params.count ? spec_.params.items[i].ranks : List<std::uint32_t>();
      in[inputs + i] = flat(QHPI_Any_Element_Type, ranks, false);
      // Constants in TCM do not arrive before the graph is executed.
      if (facts.prepare != nullptr) in[inputs + i].mem_placement = QHPI_MemLoc_DDR_Only;
    }
    for (std::size_t i = 0; i < spec_.outputs.count; ++i) out[i] = signature(inputs + i, five);
    QHPI_Kernel_v1& kernel = records_[index];
    kernel.function_name = name;
    kernel.function = facts.run;
    kernel.resources = static_cast<unsigned char>(facts.unit);
    kernel.source_destructive = facts.inPlace;
    kernel.multithreaded = facts.sliced;
    kernel.min_inputs = static_cast<std::uint32_t>(inputs + params);
    kernel.input_signature = in;
    kernel.min_outputs = static_cast<std::uint32_t>(spec_.outputs.count);
    kernel.output_signature = out;
    kernel.cost_function = facts.cost;
    kernel.sync_block_size = facts.sharedSize;
    kernel.precomputed_data_size = facts.preparedSize;
    kernel.do_precomputation_function = facts.prepare;
    kernel.function_with_precomputed_data = facts.runPrepared;
    kernel.predicate = facts.condition;
  }

  QHPI_Tensor_Signature_v1 flat(std::uint32_t element, List<std::uint32_t> ranks, bool five) const {
    // If the rank of a tensor leaves no choice, its layout does not follow the others.
    const bool wide = five ? allows(ranks, true) : !allows(ranks, false);
    return {element, static_cast<std::uint32_t>(wide ? QHPI_Layout_Flat5 : QHPI_Layout_Flat4), QHPI_Storage_Direct,
            QHPI_MemLoc_DDR_OR_TCM};
  }

  QHPI_Tensor_Signature_v1 signature(std::size_t index, bool five) const {
    if (isLeftOut(index)) return {QHPI_Int32, QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_DDR_OR_TCM};
    QHPI_Tensor_Signature_v1 made = flat(element(index), tensor(index).ranks, five);
    if (const Requirement* const required = requirement(index)) {
      if (required->layout != QHPI_Layout_Any) made.layout = required->layout;
      made.storage = required->storage;
      made.mem_placement = required->memory;
    }
    return made;
  }

  // From SDK 2.49 on, two records of one name are refused as duplicates.
  const char* nameOf(const KernelFacts& facts, std::uint32_t index) const {
    const char* const unit = facts.unit == Unit::hvx ? "_hvx_" : facts.unit == Unit::hmx ? "_hmx_" : "_main_";
    constexpr std::size_t most = 48;  // of the unit, two numbers, an underscore and the end
    char* const made = forever<char>(std::strlen(spec_.name) + most);
    if (made == nullptr) return nullptr;
    char* const end = digits(append(append(made, spec_.name), unit), static_cast<std::uint32_t>(kernel_));
    *end = '_';
    digits(end + 1, index);
    return made;
  }

  // These write at an address, and return where it ends.
  static char* append(char* at, const char* text) {
    while (*text != '\0') *at++ = *text++;
    return at;
  }
  static char* digits(char* at, std::uint32_t number) {
    char* const end = number < 10 ? at : digits(at, number / 10);
    *end = static_cast<char>('0' + number % 10);
    return end + 1;
  }

  const OpSpec& spec_;
  const OpFacts& facts_;
  const std::size_t tensors_;
  Elements* const choices_;
  std::size_t* const same_;
  std::size_t* const at_;
  std::size_t kernel_ = 0;
  std::uint32_t count_ = 0;
  QHPI_Kernel_v1* records_ = nullptr;
  bool complete_ = true;
};

const QHPI_RewriteOpFunc* ownRewrites = nullptr;  // of each op

// The op's own rewrite is called once the parameters are ordered: HTP calls this function again for a node it returns.
const QHPI_Op* rewriteEarly(const QHPI_Op* op) {
  const OpEntry* const entry = findOp(qhpi_op_name(op));
  if (entry == nullptr) return op;
  const QHPI_Op* const whole = fillInputs(*entry, op);
  const QHPI_Op* const ordered = whole != op ? whole : orderParameters(*entry, op);
  const QHPI_RewriteOpFunc own = ownRewrites[entry - tables.ops.items];
  return ordered != op || own == nullptr ? ordered : own(op);
}

}  // namespace

QHPI_StatusCode registerOps() {
  const List<OpEntry> ops = tables.ops;
  // Made once, because a runtime keeps the pointers; registered each time, because a backend forgets its ops at its
  // end.
  static QHPI_OpInfo_v1* again = nullptr;
  if (again != nullptr) return qhpi_register_ops_v1(static_cast<std::uint32_t>(ops.count), again, tables.name);
  QHPI_OpInfo_v1* const infos = forever<QHPI_OpInfo_v1>(ops.count);
  QHPI_RewriteOpFunc* const rewrites = forever<QHPI_RewriteOpFunc>(ops.count);
  OpFacts* const facts = forever<OpFacts>(1);
  if (infos == nullptr || rewrites == nullptr || facts == nullptr) return QHPI_ErrorFatal;
  for (std::size_t i = 0; i < ops.count; ++i) {
    *facts = OpFacts{};
    ops.items[i].describe(*facts);
    QHPI_OpInfo_v1& info = infos[i];
    info.kernels = Records(ops.items[i], *facts).make(info.num_kernels);
    if (info.kernels == nullptr) return QHPI_ErrorFatal;
    info.name = ops.items[i].qualifiedName;
    rewrites[i] = facts->earlyRewrite;
    const OpSpec& spec = *ops.items[i].spec;
    info.early_rewrite = spec.params.count != 0 || canEnd(spec) ? rewriteEarly : facts->earlyRewrite;
    info.late_rewrite = facts->lateRewrite;
    info.shape_required = facts->tileShape;
    info.shape_legalized = facts->legalTile;
    info.tile_output = facts->tiledOutput;
    info.build_tile = facts->buildTile;
  }
  ::operator delete(facts);
  // A backend does not forget how ops are cut into tiles, and reports each that is registered twice.
  again = forever<QHPI_OpInfo_v1>(ops.count);
  if (again == nullptr) return QHPI_ErrorFatal;
  for (std::size_t i = 0; i < ops.count; ++i) {
    again[i] = infos[i];
    again[i].shape_required = nullptr;
    again[i].shape_legalized = nullptr;
    again[i].build_tile = nullptr;
  }
  ownRewrites = rewrites;
  const QHPI_StatusCode status = qhpi_register_ops_v1(static_cast<std::uint32_t>(ops.count), infos, tables.name);
  // A warning is about another copy of the package, which has the same tiles.
  return status == QHPI_RegistrationWarning ? static_cast<QHPI_StatusCode>(QHPI_Success) : status;
}

// --- the op package interface ----------------------------------------------------------------------------------------

Qnn_ErrorHandle_t initialize(QnnOpPackage_GlobalInfrastructure_t) {
  showErrors();
  executions.begin();
  beginSession();
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t terminate() {
  executions.end();
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t createOpImpl(QnnOpPackage_GraphInfrastructure_t, QnnOpPackage_Node_t, QnnOpPackage_OpImpl_t*) {
  return QNN_OP_PACKAGE_ERROR_UNSUPPORTED_FEATURE;
}

Qnn_ErrorHandle_t freeOpImpl(QnnOpPackage_OpImpl_t) { return QNN_OP_PACKAGE_ERROR_UNSUPPORTED_FEATURE; }

}  // namespace udo
