// Why validation refused a node, as data that `udogen` reads from a CPU package.

namespace udo {

// Why this thread's last config was refused; the log has the sentence.
struct Refusal {
  enum Kind : std::uint32_t {
    value,  // or nothing was refused, or the node is not for an op of the package
    type,   // of a tensor or parameter: `accepted` are the data types that it may have
    rank,   // `accepted` are the ranks
    other   // the op has other inputs, outputs or parameters
  };
  Kind kind = value;
  const char* name = nullptr;  // of the tensor or parameter
  const void* accepted = nullptr;  // numbers of 32 bits
  std::size_t count = 0;
};

namespace {

thread_local Refusal last;

void accept() { last = {}; }

void refuseType(const char* name, List<Qnn_DataType_t> accepted) {
  static_assert(sizeof(Qnn_DataType_t) == sizeof(std::uint32_t));
  last = {Refusal::type, name, accepted.items, accepted.count};
}

void refuseRank(const char* name, List<std::uint32_t> accepted) {
  last = {Refusal::rank, name, accepted.items, accepted.count};
}

void refuseOp() { last.kind = Refusal::other; }

}  // namespace

const Refusal& refusal() { return last; }

}  // namespace udo
