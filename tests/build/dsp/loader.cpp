// Loads a library that was built for the DSP as the DSP's loader would, on qemu-hexagon: two segments, the four
// relocations, DT_INIT; then plays the role of HTP.  Built by zig as a static program of hexagon-linux-musl.
//
//   loader LIBRARY     runs the LeakyRelu of examples/leaky_relu on eight floats, then with outputs that are too small,
//                      between init and terminate, and reads its counter
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/mman.h>

#include "HTP/core/qhpi.h"
#include "QnnOpPackage.h"

namespace {

[[noreturn]] void fail(const char* what, const char* name = "") {
  std::printf("cannot load: %s %s\n", what, name);
  std::exit(1);
}

// --- symbols of the DSP -------------------------------------------------------------------------------------

void hapDebug(const char* text, int level, const char*, int) { std::printf("HAP_debug %d: %s\n", level, text); }
int threadId() { return 77; }
void finalize(void*) {}

/// vsnprintf as called on bare metal: its va_list is a pointer to words on the stack.
int vsnprintfOfTheDsp(char* text, std::size_t size, const char* format, const std::uint32_t* list) {
  std::string out;
  for (const char* at = format; *at != 0; ++at) {
    if (*at != '%') {
      out += *at;
    } else if (*++at == 's') {
      out += reinterpret_cast<const char*>(*list++);
    } else {
      while (std::strchr("zl", *at) != nullptr) ++at;
      out += std::to_string(static_cast<int>(*list++));
    }
  }
  std::snprintf(text, size, "%s", out.c_str());
  return static_cast<int>(out.size());
}

// --- symbols of HTP -----------------------------------------------------------------------------------------

const QHPI_OpInfo_v1* registered = nullptr;

QHPI_StatusCode registerOps(std::uint32_t count, QHPI_OpInfo_v1* ops, const char* package) {
  registered = ops;
  std::printf("%s: %u ops, %s with %u kernels\n", package, count, ops->name, ops->num_kernels);
  return QHPI_Success;
}

struct Tensor {
  QHPI_Element_Type type;
  QHPI_Shape shape;
  void* data;
};

const Tensor* of(const QHPI_Tensor* tensor) { return reinterpret_cast<const Tensor*>(tensor); }
QHPI_Shape shapeOf(const QHPI_Tensor* tensor) { return of(tensor)->shape; }
QHPI_Element_Type typeOf(const QHPI_Tensor* tensor) { return of(tensor)->type; }
QHPI_Quant_Parameters quantOf(const QHPI_Tensor*) { return {0, 1.0f}; }
void* dataOf(const QHPI_Tensor* tensor) { return of(tensor)->data; }
std::uint32_t sizeOf(QHPI_Element_Type) { return 4; }

// The part of libc++ that a library may use; on a device it is in libc++.so.1 and libc++abi.so.1.
extern "C" void newObject() __asm__("_Znwj");
extern "C" void deleteObject() __asm__("_ZdlPv");

// The part of QHPI for graphs and threads: never called here.
void never() { fail("called", "a function of QHPI that a kernel without hooks does not need"); }

struct Known {
  const char* name;
  void* address;
};

const Known known[] = {
    {"HAP_debug", reinterpret_cast<void*>(hapDebug)},
    {"qurt_thread_get_id", reinterpret_cast<void*>(threadId)},
    {"__cxa_finalize", reinterpret_cast<void*>(finalize)},
    {"abort", reinterpret_cast<void*>(std::abort)},
    {"vsnprintf", reinterpret_cast<void*>(vsnprintfOfTheDsp)},
    {"memcpy", reinterpret_cast<void*>(std::memcpy)},
    {"__hexagon_memcpy_likely_aligned_min32bytes_mult8bytes", reinterpret_cast<void*>(std::memcpy)},
    {"memmove", reinterpret_cast<void*>(std::memmove)},
    {"memset", reinterpret_cast<void*>(std::memset)},
    {"strcmp", reinterpret_cast<void*>(std::strcmp)},
    {"memcmp", reinterpret_cast<void*>(std::memcmp)},
    {"strlen", reinterpret_cast<void*>(std::strlen)},
    {"nearbyintf", reinterpret_cast<void*>(nearbyintf)},
    {"qhpi_register_ops_v1", reinterpret_cast<void*>(registerOps)},
    {"qhpi_tensor_shape", reinterpret_cast<void*>(shapeOf)},
    {"qhpi_tensor_type", reinterpret_cast<void*>(typeOf)},
    {"qhpi_tensor_quant_parameters", reinterpret_cast<void*>(quantOf)},
    {"qhpi_tensor_raw_data", reinterpret_cast<void*>(dataOf)},
    {"qhpi_element_type_size", reinterpret_cast<void*>(sizeOf)},
    {"_Znwj", reinterpret_cast<void*>(newObject)},
    {"_ZdlPv", reinterpret_cast<void*>(deleteObject)},
};

// --- the loader ---------------------------------------------------------------------------------------------

struct Header {
  unsigned char ident[16];
  std::uint16_t type, machine;
  std::uint32_t version, entry, phoff, shoff, flags;
  std::uint16_t ehsize, phentsize, phnum, shentsize, shnum, shstrndx;
};
struct Segment {
  std::uint32_t type, offset, vaddr, paddr, filesz, memsz, flags, align;
};
struct Symbol {
  std::uint32_t name, value, size;
  unsigned char info, other;
  std::uint16_t section;
};
struct Relocation {
  std::uint32_t offset, info;
  std::int32_t addend;
};

struct Library {
  char* base = nullptr;
  const Symbol* symbols = nullptr;
  const char* names = nullptr;
  const std::uint32_t* hash = nullptr;
  std::uint32_t init = 0;

  void* find(const char* name) const {
    for (std::uint32_t i = 0; i < hash[1]; ++i) {
      if (symbols[i].section != 0 && std::strcmp(names + symbols[i].name, name) == 0) return base + symbols[i].value;
    }
    return nullptr;
  }

  std::uint32_t resolve(std::uint32_t index) const {
    const char* name = names + symbols[index].name;
    for (const Known& each : known) {
      if (std::strcmp(each.name, name) == 0) return reinterpret_cast<std::uint32_t>(each.address);
    }
    if (void* own = find(name)) return reinterpret_cast<std::uint32_t>(own);
    if (std::strncmp(name, "qhpi_", 5) == 0) return reinterpret_cast<std::uint32_t>(never);
    fail("undefined symbol", name);
  }

  void relocate(std::uint32_t table, std::uint32_t size) const {
    const Relocation* each = reinterpret_cast<const Relocation*>(base + table);
    for (const Relocation* end = each + size / sizeof *each; each != end; ++each) {
      std::uint32_t* at = reinterpret_cast<std::uint32_t*>(base + each->offset);
      switch (each->info & 0xff) {
        case 6:                                                                                 // R_HEX_32
        case 33:                                                                                // R_HEX_GLOB_DAT
        case 34: *at = resolve(each->info >> 8) + static_cast<std::uint32_t>(each->addend); break;  // R_HEX_JMP_SLOT
        case 35: *at = reinterpret_cast<std::uint32_t>(base) + static_cast<std::uint32_t>(each->addend); break;
        default: fail("relocation of another type");
      }
    }
  }
};

Library load(const char* path) {
  std::FILE* file = std::fopen(path, "rb");
  if (file == nullptr) fail("no file", path);
  static char image[1 << 20];
  const std::size_t size = std::fread(image, 1, sizeof image, file);
  std::fclose(file);
  if (size == sizeof image) fail("too large");
  const Header* header = reinterpret_cast<const Header*>(image);
  const Segment* segments = reinterpret_cast<const Segment*>(image + header->phoff);
  Library library;
  library.base = static_cast<char*>(
      mmap(nullptr, 4 << 20, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const std::uint32_t* dynamic = nullptr;
  for (int i = 0; i < header->phnum; ++i) {
    const Segment& each = segments[i];
    if (each.type == 1) std::memcpy(library.base + each.vaddr, image + each.offset, each.filesz);
    if (each.type == 2) dynamic = reinterpret_cast<const std::uint32_t*>(library.base + each.vaddr);
  }
  std::uint32_t rela = 0, relasz = 0, jmprel = 0, pltrelsz = 0, abi = 0;
  for (; dynamic[0] != 0; dynamic += 2) {
    switch (dynamic[0]) {
      case 2: pltrelsz = dynamic[1]; break;
      case 4: library.hash = reinterpret_cast<const std::uint32_t*>(library.base + dynamic[1]); break;
      case 5: library.names = library.base + dynamic[1]; break;
      case 6: library.symbols = reinterpret_cast<const Symbol*>(library.base + dynamic[1]); break;
      case 7: rela = dynamic[1]; break;
      case 8: relasz = dynamic[1]; break;
      case 12: library.init = dynamic[1]; break;
      case 23: jmprel = dynamic[1]; break;
      case 0x70000001: abi = dynamic[1]; break;
      default: break;
    }
  }
  if (abi != 3) fail("DT_HEXAGON_VER");
  library.relocate(rela, relasz);
  library.relocate(jmprel, pltrelsz);
  reinterpret_cast<void (*)()>(library.base + library.init)();
  return library;
}

}  // namespace

int main(int, char** arguments) {
  const Library library = load(arguments[1]);
  const auto provide = reinterpret_cast<Qnn_ErrorHandle_t (*)(QnnOpPackage_Interface_t*)>(
      library.find("LeakyReluPackageInterfaceProvider"));
  const auto executions = reinterpret_cast<std::uint64_t (*)(const char*)>(library.find("LeakyReluPackageExecutions"));
  QnnOpPackage_Interface_t package;
  if (provide == nullptr || executions == nullptr || provide(&package) != 0) fail("no provider, or no counter");
  void* start = library.find("qhpi_init");
  if (start == nullptr) fail("no qhpi_init");
  std::printf("qhpi_init: %s\n", reinterpret_cast<const char* (*)()>(start)());

  float x[8], y[8] = {};
  for (int i = 0; i < 8; ++i) x[i] = static_cast<float>(i - 4);
  float alpha = 0.5f;
  Tensor in{QHPI_Float32, {4, {1, 1, 2, 4}}, x}, out{QHPI_Float32, {4, {1, 1, 2, 4}}, y};
  Tensor slope{QHPI_Float32, {4, {1, 1, 1, 1}}, &alpha};
  const QHPI_Tensor* inputs[] = {reinterpret_cast<QHPI_Tensor*>(&in), reinterpret_cast<QHPI_Tensor*>(&slope)};
  QHPI_Tensor* outputs[] = {reinterpret_cast<QHPI_Tensor*>(&out)};
  const QHPI_Plugin_Function run = registered->kernels[0].function;
  std::printf("run: %u\n", run(nullptr, 1, outputs, 2, inputs));
  for (const float each : y) std::printf("%g ", static_cast<double>(each));
  std::printf("\n");
  out.shape.dims[3] = 3;
  std::printf("run: %u\n", run(nullptr, 1, outputs, 2, inputs));
  std::printf("executions: %llu\n", static_cast<unsigned long long>(executions("LeakyRelu")));
  std::printf("init: %llu\n", static_cast<unsigned long long>(package.v1_4.init(nullptr)));
  std::printf("terminate: %llu\n", static_cast<unsigned long long>(package.v1_4.terminate()));
  return 0;
}
