// Functions that Halide has compiled for a GPU launch kernels.  They are called once, when the graph is finalized; what they
// launch is recorded as the kernels of the op, which the backend runs.

namespace udo {
namespace halide {

/// A kernel that a function may launch.
struct Launch {
  const char* entry;      // as the function calls it
  const char* name;       // in the text
  const char* arguments;  // a letter for each one; see Launches::add
  const char* text;
};

/// The call of a function, and the kernels that it launches.
class Launches : public Call {
 public:
  explicit Launches(Operation& operation) : Call(true), operation_(operation) {}

  template <std::size_t N>
  Launches& of(const Launch (&launches)[N]) {
    return known_ = List<Launch>(launches), *this;
  }

  Status run(int returned) const {
    if (returned == 0 && ok() && count_ == 0) return error("the kernel launches nothing");
    return Call::run(returned == 0 && ok() ? 0 : -1);
  }

  // What the functions call.
  int launch(const char* entry, const int blocks[3], const int threads[3], int shared, void* const* arguments);
  int allocate(Buffer& buffer);

 private:
  void add(Kernel& kernel, char kind, const void* argument);

  Operation& operation_;
  List<Launch> known_;
  std::size_t count_ = 0;
};

}  // namespace halide
}  // namespace udo
