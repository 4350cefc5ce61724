#include <cstring>

namespace udo {
namespace halide {
namespace {

template <class T>
T numberAt(const void* argument) {
  T number;
  std::memcpy(&number, argument, sizeof number);
  return number;
}

Qnn_DataType_t storedAs(Type type) {
  constexpr std::uint32_t ofCode[] = {0x0000, 0x0100, 0x0200};  // signed, unsigned, floats
  constexpr std::uint32_t ofBits[] = {0x08, 0x16, 0x32, 0x64};
  const unsigned log = type.bits <= 8 ? 0 : type.bits == 16 ? 1 : type.bits == 32 ? 2 : 3;
  return static_cast<Qnn_DataType_t>(ofCode[type.code < 3 ? type.code : 0] | ofBits[log]);
}

}  // namespace

int Launches::launch(const char* entry, const int blocks[3], const int threads[3], int shared, void* const* arguments) {
  const Launch* found = nullptr;
  for (const Launch& each : known_) found = std::strcmp(each.entry, entry) == 0 ? &each : found;
  if (found == nullptr) {
    fail("%s is no kernel of this package", entry);
    return -1;
  }
  std::size_t sizes[3], groups[3];
  for (int axis = 0; axis < 3; ++axis) {
    groups[axis] = static_cast<std::size_t>(threads[axis]);
    sizes[axis] = static_cast<std::size_t>(blocks[axis]) * groups[axis];
  }
  if (sizes[0] * sizes[1] * sizes[2] == 0) return 0;
  Kernel& kernel = operation_.kernel(found->name);
  kernel.source(found->text).globalSize(sizes[0], sizes[1], sizes[2]).localSize(groups[0], groups[1], groups[2]);
  std::size_t at = 0;
  for (const char* kind = found->arguments; *kind != '\0'; ++kind) {
    if (*kind == 'M') {
      kernel.local(static_cast<std::size_t>(shared > 0 ? shared : 1));
    } else {
      add(kernel, *kind, arguments[at++]);
    }
  }
  ++count_;
  return ok() ? 0 : -1;
}

void Launches::add(Kernel& kernel, char kind, const void* argument) {
  switch (kind) {
    case 'b': {
      const Buffer& buffer = *static_cast<const Buffer*>(argument);
      if (buffer.device <= Operation::mostScratch) {
        kernel.readWrite(Scratch{static_cast<std::uint32_t>(buffer.device - 1)});
        break;
      }
      const auto* const facts = reinterpret_cast<const TensorFacts*>(static_cast<std::uintptr_t>(buffer.device));
      if (facts->argument == QNN_GPU_KERNEL_ARG_TYPE_OP_OUTPUT_WRITE) {
        kernel.write(Output(facts));
      } else {
        kernel.read(Input(facts));
      }
      break;
    }
    case 'c': kernel.value(numberAt<std::int8_t>(argument)); break;
    case 'C': kernel.value(numberAt<std::uint8_t>(argument)); break;
    case 's': kernel.value(numberAt<std::int16_t>(argument)); break;
    case 'S': kernel.value(numberAt<std::uint16_t>(argument)); break;
    case 'i': kernel.value(numberAt<std::int32_t>(argument)); break;
    case 'I': kernel.value(numberAt<std::uint32_t>(argument)); break;
    case 'l': kernel.value(numberAt<std::int64_t>(argument)); break;
    case 'L': kernel.value(numberAt<std::uint64_t>(argument)); break;
    default: kernel.value(numberAt<float>(argument)); break;
  }
}

int Launches::allocate(Buffer& buffer) {
  if (buffer.device != 0) return 0;  // a tensor, or memory that was allocated before
  std::size_t count = 1;
  for (std::int32_t axis = 0; axis < buffer.dimensions; ++axis) {
    count *= static_cast<std::size_t>(buffer.dim[axis].extent > 0 ? buffer.dim[axis].extent : 1);
  }
  buffer.device = operation_.scratch(storedAs(buffer.type), count).index + 1u;
  return 0;
}

}  // namespace halide
}  // namespace udo

using udo::halide::Buffer;
using udo::halide::Call;
using udo::halide::Launches;

namespace {
Launches& launchesOf(void* call) { return static_cast<Launches&>(*static_cast<Call*>(call)); }
}  // namespace

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif
extern "C" {

// NOLINTBEGIN: the names are Halide's
int halide_opencl_initialize_kernels(void*, void**, const char*, int) { return 0; }
void halide_opencl_finalize_kernels(void*, void*) {}
const void* halide_opencl_device_interface() { return "recorded"; }
int halide_opencl_run(void* call, void*, const char* entry, int blocksX, int blocksY, int blocksZ, int threadsX,
                      int threadsY, int threadsZ, int shared, const std::size_t*, void** arguments, const std::int8_t*) {
  const int blocks[] = {blocksX, blocksY, blocksZ}, threads[] = {threadsX, threadsY, threadsZ};
  return launchesOf(call).launch(entry, blocks, threads, shared, arguments);
}
int halide_device_malloc(void* call, Buffer* buffer, const void*) { return launchesOf(call).allocate(*buffer); }
int halide_device_free(void*, Buffer*) { return 0; }
void halide_device_free_as_destructor(void*, void*) {}
int halide_copy_to_device(void* call, Buffer* buffer, const void*) { return launchesOf(call).allocate(*buffer); }
// Memory between kernels belongs to the GPU.
void* halide_malloc(void*, std::size_t) { return nullptr; }
void halide_free(void*, void*) {}
// NOLINTEND
}
#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
