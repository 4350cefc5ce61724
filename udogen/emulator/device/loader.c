/* Loads the HTP library of a DSP (libQnnHtpV73Skel.so …) and an op package under qemu-hexagon, and registers the
 * package in it:
 *   loader SELF SKEL PACKAGE
 * SELF is the path of this program: its own symbol table has what both find here, zig's C and C++ libraries; a function
 * or variable `dsp_x` of system.c takes precedence over `x`.  Only exported names are used.  What is found nowhere ends
 * the program with its name when it is called.  Each line of output is a word, and what follows it; see device.py. */
#include <elf.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader.h"

enum { PAGE = 4096, STUBS = 1024, VARIABLE = 512 };

struct Library {
  const char* name;
  char* base;
  const Elf32_Sym* symbols;
  const char* texts;
  uint32_t count; /* of symbols */
  const Elf32_Rela* tables[2];
  uint32_t sizes[2];
  void (*init)(void);
  void (**init_array)(void);
  uint32_t inits;
};

void say(const char* word, const char* format, ...) {
  char text[2048];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  for (char* at = text; *at != 0; ++at) {
    if ((unsigned char)*at < ' ') *at = ' ';
  }
  char line[2200];
  const int length = snprintf(line, sizeof line, "%s %s\n", word, text);
  if (write(1, line, (size_t)length) != length) _exit(3);
}

void stop(const char* word, const char* text) {
  say(word, "%s", text);
  _exit(2);
}

static char* contents(const char* path, uint32_t* size) {
  struct stat status;
  const int file = open(path, O_RDONLY);
  if (file < 0 || fstat(file, &status) != 0) stop("unreadable", path);
  void* const data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  if (data == MAP_FAILED) stop("unreadable", path);
  close(file);
  *size = (uint32_t)status.st_size;
  return data;
}

/* --- this program's own symbols --------------------------------------------------------------------------------- */

struct Own {
  const char* name;
  char* address;
};
static struct Own* own;
static size_t owns;

static int by_name(const void* a, const void* b) {
  return strcmp(((const struct Own*)a)->name, ((const struct Own*)b)->name);
}

static void read_own(const char* path) {
  uint32_t size;
  char* const data = contents(path, &size);
  const Elf32_Ehdr* const head = (const Elf32_Ehdr*)data;
  const Elf32_Shdr* const sections = (const Elf32_Shdr*)(data + head->e_shoff);
  for (int at = 0; at < head->e_shnum; ++at) {
    if (sections[at].sh_type != SHT_SYMTAB) continue;
    const Elf32_Sym* const symbols = (const Elf32_Sym*)(data + sections[at].sh_offset);
    const char* const texts = data + sections[sections[at].sh_link].sh_offset;
    const size_t count = sections[at].sh_size / sizeof *symbols;
    own = malloc(count * sizeof *own);
    for (size_t each = 0; each < count; ++each) {
      const Elf32_Sym* const symbol = &symbols[each];
      /* The linker makes hidden symbols local. */
      const int local = ELF32_ST_BIND(symbol->st_info) == STB_LOCAL && symbol->st_other == STV_DEFAULT;
      if (symbol->st_shndx == SHN_UNDEF || local) continue;
      own[owns++] = (struct Own){texts + symbol->st_name, (char*)symbol->st_value};
    }
  }
  qsort(own, owns, sizeof *own, by_name);
}

static char* find_own(const char* prefix, const char* name) {
  char text[512];
  snprintf(text, sizeof text, "%s%s", prefix, name);
  const struct Own wanted = {text, NULL};
  const struct Own* const found = bsearch(&wanted, own, owns, sizeof *own, by_name);
  return found != NULL ? found->address : NULL;
}

/* --- what is found nowhere: stub n ends the program with the n-th name ------------------------------------------ */

static const char* absent[STUBS];
static uint32_t absents;

__asm__(
    ".text\n.p2align 4\n.globl udogen_stubs\nudogen_stubs:\n"
    ".rept 1024\n{ r28 = add(pc, #0)\n jump udogen_stub }\n.endr\n"
    ".globl udogen_stub\nudogen_stub:\n{ r0 = r28\n jump udogen_called }\n");
extern char udogen_stubs[];

__attribute__((used, noreturn)) void udogen_called(const char* at) {
  stop("called", absent[(at - udogen_stubs) / 8]);
}

static char* stub(const char* name) {
  if (absents == STUBS) stop("unsupported", "more than 1024 functions that are found nowhere");
  absent[absents] = name;
  return udogen_stubs + 8 * absents++;
}

/* --- libraries -------------------------------------------------------------------------------------------------- */

static char* exported(const struct Library* library, const char* name) {
  for (uint32_t at = 1; at < library->count; ++at) {
    const Elf32_Sym* const symbol = &library->symbols[at];
    if (symbol->st_shndx == SHN_UNDEF || ELF32_ST_BIND(symbol->st_info) == STB_LOCAL) continue;
    if (strcmp(library->texts + symbol->st_name, name) == 0) return library->base + symbol->st_value;
  }
  return NULL;
}

static void read_dynamic(struct Library* library, const Elf32_Dyn* row) {
  for (; row->d_tag != DT_NULL; ++row) {
    char* const at = library->base + row->d_un.d_ptr;
    const uint32_t value = row->d_un.d_val;
    switch (row->d_tag) {
      case DT_SYMTAB: library->symbols = (const Elf32_Sym*)at; break;
      case DT_STRTAB: library->texts = at; break;
      case DT_RELA: library->tables[0] = (const Elf32_Rela*)at; break;
      case DT_RELASZ: library->sizes[0] = value; break;
      case DT_JMPREL: library->tables[1] = (const Elf32_Rela*)at; break;
      case DT_PLTRELSZ: library->sizes[1] = value; break;
      case DT_INIT: library->init = (void (*)(void))at; break;
      case DT_INIT_ARRAY: library->init_array = (void (**)(void))at; break;
      case DT_INIT_ARRAYSZ: library->inits = value / sizeof(void*); break;
      default: break;
    }
  }
}

static struct Library place(const char* path) {
  uint32_t size, end = 0;
  char* const data = contents(path, &size);
  const Elf32_Ehdr* const head = (const Elf32_Ehdr*)data;
  const Elf32_Phdr* const parts = (const Elf32_Phdr*)(data + head->e_phoff);
  for (int at = 0; at < head->e_phnum; ++at) {
    const uint32_t last = parts[at].p_vaddr + parts[at].p_memsz;
    if (parts[at].p_type == PT_LOAD && last > end) end = last;
    if (parts[at].p_type == PT_TLS) stop("unsupported", "thread-local variables");
  }
  struct Library library = {.name = path};
  library.base = mmap(NULL, end + PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (library.base == MAP_FAILED) stop("unsupported", "no memory for the library");
  const Elf32_Dyn* dynamic = NULL;
  for (int at = 0; at < head->e_phnum; ++at) {
    const Elf32_Phdr* const part = &parts[at];
    if (part->p_type == PT_LOAD) memcpy(library.base + part->p_vaddr, data + part->p_offset, part->p_filesz);
    if (part->p_type == PT_DYNAMIC) dynamic = (const Elf32_Dyn*)(library.base + part->p_vaddr);
  }
  const Elf32_Shdr* const sections = (const Elf32_Shdr*)(data + head->e_shoff);
  for (int at = 0; at < head->e_shnum; ++at) {
    if (sections[at].sh_type == SHT_DYNSYM) library.count = sections[at].sh_size / sizeof(Elf32_Sym);
  }
  munmap(data, size);
  if (dynamic == NULL || library.count == 0) stop("unsupported", "a library without a table of dynamic symbols");
  read_dynamic(&library, dynamic);
  return library;
}

static struct Library skel;
static uint32_t (*real_register)(uint32_t, void*, const char*);

static uint32_t watched_register(uint32_t count, void* ops, const char* package) {
  const uint32_t code = real_register(count, ops, package);
  say("ops", "%u %u %s", code, count, package != NULL ? package : "");
  return code;
}

/* The address of a symbol for a library: of its own, of the DSP's library for a package, of this program. */
static char* resolve(const struct Library* library, const Elf32_Sym* symbol) {
  const char* const name = library->texts + symbol->st_name;
  if (symbol->st_shndx != SHN_UNDEF) return library->base + symbol->st_value;
  char* found = NULL;
  if (library != &skel && strcmp(name, "qhpi_register_ops_v1") == 0 && real_register != NULL) {
    return (char*)watched_register;
  }
  if (library != &skel) found = exported(&skel, name);
  if (found == NULL) found = find_own("dsp_", name);
  if (found == NULL) found = find_own("", name);
  if (found != NULL || ELF32_ST_BIND(symbol->st_info) == STB_WEAK) return found;
  say("absent", "%s", name);
  return ELF32_ST_TYPE(symbol->st_info) == STT_OBJECT ? calloc(1, VARIABLE) : stub(name);
}

static void relocate(const struct Library* library) {
  char** const found = calloc(library->count, sizeof *found);
  for (int table = 0; table < 2; ++table) {
    const Elf32_Rela* row = library->tables[table];
    for (uint32_t rest = library->sizes[table] / sizeof *row; rest != 0; --rest, ++row) {
      const uint32_t type = ELF32_R_TYPE(row->r_info), index = ELF32_R_SYM(row->r_info);
      char** const to = (char**)(library->base + row->r_offset);
      if (index != 0 && found[index] == NULL) found[index] = resolve(library, &library->symbols[index]);
      if (type == R_HEX_RELATIVE) {
        *to = library->base + row->r_addend;
      } else if (type == R_HEX_32 || type == R_HEX_GLOB_DAT || type == R_HEX_JMP_SLOT) {
        *to = found[index] + row->r_addend;
      } else if (type != R_HEX_NONE) {
        char text[64];
        snprintf(text, sizeof text, "relocation %u", type);
        stop("unsupported", text);
      }
    }
  }
  free(found);
}

static void initialize(const struct Library* library) {
  if (library->init != NULL) library->init();
  for (uint32_t at = 0; at < library->inits; ++at) library->init_array[at]();
}

int main(int argc, char** argv) {
  if (argc != 4) stop("unsupported", "three arguments are needed");
  read_own(argv[1]);
  say("step", "relocate skel");
  skel = place(argv[2]);
  relocate(&skel);
  real_register = (uint32_t (*)(uint32_t, void*, const char*))exported(&skel, "qhpi_register_ops_v1");
  say("step", "initialize skel");
  initialize(&skel);
  say("step", "relocate package");
  const struct Library package = place(argv[3]);
  relocate(&package);
  say("step", "initialize package");
  initialize(&package);
  say("step", "qhpi_init package");
  const char* (*const start)(void) = (const char* (*)(void))exported(&package, "qhpi_init");
  if (start == NULL) stop("unsupported", "a package without qhpi_init");
  const char* const name = start();
  say("package", "%s", name != NULL ? name : "");
  say("done", "");
  _exit(0);
}
