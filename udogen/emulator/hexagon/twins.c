/* Runs vector functions that Halide has compiled against their scalar twins, on drawn data, and compares the outputs.
 *
 *   program REQUEST SECONDS
 *
 * REQUEST is a row of words, little-endian: for each call its number, the addresses of the function and of its twin,
 * the bytes after an aligned address at which tensors begin (0: one element), whether it calculates in floats, the bits
 * that numbers of more than 16 bits have, the seed, the number of arguments; then each argument: kind, and of a tensor
 * code, bits, rank, dims[rank], of a number the word.  SIGPROF ends a function after SECONDS of processor time.
 * The twin is asked first which lengths its inputs need.  It prints a line for each step, so that a program that dies
 * has reported how far it came.  udogen/build/vectors.py is the other end of both. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum { INPUT, OUTPUT, NUMBER };
enum { UNSIGNED = 1, HALF = 3 }; /* codes; buffers of half floats have the one of unsigned numbers */
enum { MAX_ARGUMENTS = 48, MAX_RANK = 8, PAD = 512, MAX_ELEMENTS = 1 << 21, QUERIES = 4 };

typedef struct {
  int32_t min, extent, stride;
  uint32_t flags;
} Dimension;

/* halide_buffer_t */
typedef struct {
  uint64_t device;
  const void* device_interface;
  uint8_t* host;
  uint64_t flags;
  uint8_t code, bits;
  uint16_t lanes;
  int32_t dimensions;
  Dimension* dim;
  void* padding;
} Buffer;

typedef struct {
  uint32_t kind, code;
  Buffer buffer;
  Dimension dims[MAX_RANK];
  size_t bytes;
  uint8_t *memory, *first; /* `first`: the output of the twin */
} Argument;

#define W(n) uint32_t n
typedef int Function(void*, W(a), W(b), W(c), W(d), W(e), W(f), W(g), W(h), W(i), W(j), W(k), W(l), W(m), W(n), W(o),
                     W(p), W(q), W(r), W(s), W(t), W(u), W(v), W(w), W(x), W(A), W(B), W(C), W(D), W(E), W(F), W(G),
                     W(H), W(I), W(J), W(K), W(L), W(M), W(N), W(O), W(P), W(Q), W(R), W(S), W(T), W(U), W(V), W(X),
                     W(Y));

static const char* failed = "";

/* Halide's functions call these before they return an error. */
#define FAILS(name)                   \
  int halide_error_##name(void* user) { \
    (void)user;                       \
    failed = #name;                   \
    return -1;                        \
  }
FAILS(access_out_of_bounds)
FAILS(constraint_violated)
FAILS(requirement_failed)
FAILS(bad_type)
FAILS(bad_dimensions)
FAILS(buffer_allocation_too_large)
FAILS(buffer_extents_too_large)
FAILS(buffer_extents_negative)
FAILS(buffer_argument_is_null)
FAILS(host_is_null)
FAILS(unaligned_host_ptr)
FAILS(device_dirty_with_no_device_support)
FAILS(constraints_make_required_region_smaller)
FAILS(storage_bound_too_small)
FAILS(explicit_bounds_too_small)
FAILS(split_factor_not_positive)
FAILS(specialize_fail)
FAILS(out_of_memory)

void halide_error(void* user, const char* message) { (void)user, (void)message; }
int halide_qurt_hvx_lock(void* user) { return user != NULL; }
int halide_qurt_hvx_unlock(void* user) { return user != NULL; }
void halide_qurt_hvx_unlock_as_destructor(void* user, void* object) { (void)user, (void)object; }
void* halide_malloc(void* user, size_t size) { return (void)user, aligned_alloc(128, (size + 255) / 128 * 128); }
void halide_free(void* user, void* memory) { (void)user, free(memory); }
void* halide_vtcm_malloc(void* user, int size) { return (void)user, (void)size, NULL; }
void halide_vtcm_free(void* user, void* memory) { (void)user, (void)memory; }

static uint64_t state;

static uint64_t draw(void) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state * 0x2545f4914f6cdd1dull >> 8;
}

/* A float from 2^-8 to 2^4 of either sign: sums and exponentials of these are finite. */
static uint64_t draw_float(uint32_t bits) {
  const uint32_t digits = bits == 16 ? 10 : 23, least = (bits == 16 ? 15 : 127) - 8;
  return (draw() & 1) << (bits - 1) | (uint64_t)(least + draw() % 12) << digits | (draw() & ((1u << digits) - 1));
}

/* Numbers over the whole range of the type; every 16th element is an extreme, at other elements for each tensor. */
static void fill(Argument* argument, size_t count, uint32_t most_bits, uint32_t number, uint32_t in_floats) {
  const uint32_t bits = argument->buffer.bits, size = bits / 8;
  const int is_integer = argument->code < 2, is_signed = argument->code == 0;
  const uint32_t used = is_integer && bits > 16 && most_bits < bits ? most_bits : bits;
  for (size_t at = 0; at < count; ++at) {
    uint64_t value = in_floats && !is_integer ? draw_float(bits) : draw();
    if (used == 64) value = value << 32 ^ draw();
    if ((at + number) % 16 == 0 && !(in_floats && !is_integer)) {
      const uint64_t extremes[] = {0, 1, ~0ull, 1ull << (used - 1), (1ull << (used - 1)) - 1, 2};
      value = extremes[draw() % 6];
    }
    if (used < 64) value &= (1ull << used) - 1;
    if (is_signed && used < bits && value >> (used - 1)) value |= ~0ull << used;
    memcpy(argument->buffer.host + at * size, &value, size);
  }
}

static struct itimerval limit;

static int call(uint32_t function, Argument* arguments, uint32_t count, const uint32_t* numbers) {
  uint32_t w[MAX_ARGUMENTS] = {0};
  for (uint32_t n = 0; n < count; ++n) {
    w[n] = arguments[n].kind == NUMBER ? numbers[n] : (uint32_t)(uintptr_t)&arguments[n].buffer;
  }
  failed = "";
  setitimer(ITIMER_PROF, &limit, NULL);
  return ((Function*)(uintptr_t)function)(
      NULL, w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13], w[14], w[15], w[16],
      w[17], w[18], w[19], w[20], w[21], w[22], w[23], w[24], w[25], w[26], w[27], w[28], w[29], w[30], w[31], w[32],
      w[33], w[34], w[35], w[36], w[37], w[38], w[39], w[40], w[41], w[42], w[43], w[44], w[45], w[46], w[47]);
}

/* The number of elements; the strides become those of contiguous memory. */
static size_t lay_out(Argument* argument) {
  uint64_t count = 1;
  for (int32_t axis = 0; axis < argument->buffer.dimensions; ++axis) {
    argument->dims[axis].min = 0;
    argument->dims[axis].stride = (int32_t)count;
    count *= argument->dims[axis].extent > 0 ? (uint32_t)argument->dims[axis].extent : 0;
    if (count > MAX_ELEMENTS) return MAX_ELEMENTS + 1;
  }
  return (size_t)count;
}

/* Asks the twin for the lengths that it needs, until they stay. */
static int find_lengths(uint32_t twin, Argument* arguments, uint32_t count, const uint32_t* numbers) {
  for (int query = 0; query < QUERIES; ++query) {
    int changed = 0;
    int32_t before[MAX_ARGUMENTS][MAX_RANK];
    for (uint32_t n = 0; n < count; ++n) {
      arguments[n].buffer.host = NULL;
      for (int axis = 0; axis < MAX_RANK; ++axis) before[n][axis] = arguments[n].dims[axis].extent;
    }
    if (call(twin, arguments, count, numbers) != 0) return 0;
    for (uint32_t n = 0; n < count; ++n) {
      if (arguments[n].kind == NUMBER) continue;
      for (int axis = 0; axis < arguments[n].buffer.dimensions; ++axis) {
        int32_t* extent = &arguments[n].dims[axis].extent;
        *extent += arguments[n].dims[axis].min; /* a tensor begins at 0 */
        if (*extent < 1) *extent = before[n][axis];
        changed |= *extent != before[n][axis];
      }
      if (lay_out(&arguments[n]) > MAX_ELEMENTS) return 0;
    }
    if (!changed) break;
  }
  return 1;
}

static double number_at(const Argument* argument, const uint8_t* at) {
  const uint32_t bits = argument->buffer.bits;
  _Float16 half;
  float usual;
  int64_t integer = 0;
  if (argument->code == HALF) return memcpy(&half, at, 2), half;
  if (argument->code == 2) return memcpy(&usual, at, 4), usual;
  memcpy(&integer, at, bits / 8);
  return (double)(argument->code == 0 ? integer << (64 - bits) >> (64 - bits) : integer);
}

/* The mean size of what the twin has calculated. */
static double mean_of(const Argument* argument, const uint8_t* twin, int32_t count) {
  double sum = 0;
  int32_t finite = 1;
  for (int32_t at = 0; at < count; ++at) {
    const double size = __builtin_fabs(number_at(argument, twin + at * (argument->buffer.bits / 8)));
    if (__builtin_isfinite(size)) sum += size, ++finite;
  }
  return sum / finite;
}

/* Whether a number differs from the twin's by no more than sums in another precision do, and integers by 1.
 * Qfloat has neither infinities nor NaN. */
static int is_near(const Argument* argument, const uint8_t* found, const uint8_t* twin, double mean) {
  const double expected = number_at(argument, twin), size = __builtin_fabs(expected);
  const double limit = (size + mean) * (argument->code == HALF ? 0x1p-10 : 0x1p-14);
  return !__builtin_isfinite(size) ||
         __builtin_fabs(number_at(argument, found) - expected) <= limit + (argument->code < 2);
}

static void compare(Argument* arguments, uint32_t count, uint32_t function, uint32_t in_floats) {
  for (uint32_t n = 0; n < count; ++n) {
    Argument* each = &arguments[n];
    if (each->kind != OUTPUT || memcmp(each->memory, each->first, each->bytes) == 0) continue;
    const int32_t size = each->buffer.bits / 8;
    const uint8_t* twin = each->first + (each->buffer.host - each->memory);
    const int32_t begin = -(int32_t)((each->buffer.host - each->memory) / size);
    const int32_t end = (int32_t)((each->memory + each->bytes - each->buffer.host) / size);
    const int32_t elements = (int32_t)lay_out(each);
    const double mean = in_floats ? mean_of(each, twin, elements) : 0;
    int32_t first = end, wrong = 0;
    for (int32_t at = begin; at < end; ++at) {
      const uint8_t *found = each->buffer.host + at * size, *expected = twin + at * size;
      if (memcmp(found, expected, (size_t)size) == 0) continue;
      if (in_floats && at >= 0 && at < elements && is_near(each, found, expected, mean)) continue;
      if (wrong++ == 0) first = at;
    }
    if (wrong == 0) continue;
    uint64_t found = 0, expected = 0;
    memcpy(&found, each->buffer.host + first * size, (size_t)size);
    memcpy(&expected, twin + first * size, (size_t)size);
    printf("differs %u %u %d %d %d %llu %llu\n", function, n, first, wrong, elements,
           (unsigned long long)found, (unsigned long long)expected);
    return;
  }
  for (uint32_t n = 0; n < count; ++n) {
    if (arguments[n].kind != OUTPUT) continue;
    printf("agrees %u %u\n", function, (unsigned)lay_out(&arguments[n]));
    return;
  }
}

static const uint32_t* run(const uint32_t* request) {
  static Argument arguments[MAX_ARGUMENTS];
  uint32_t numbers[MAX_ARGUMENTS];
  const uint32_t function = request[0], vector = request[1], twin = request[2], shift = request[3];
  const uint32_t in_floats = request[4], most_bits = request[5], seed = request[6], count = request[7];
  request += 8;
  memset(arguments, 0, sizeof arguments);
  for (uint32_t n = 0; n < count; ++n) {
    Argument* each = &arguments[n];
    each->kind = *request++;
    if (each->kind == NUMBER) {
      numbers[n] = *request++;
      continue;
    }
    each->code = *request++;
    each->buffer.code = (uint8_t)(each->code == HALF ? UNSIGNED : each->code);
    each->buffer.bits = (uint8_t)*request++;
    each->buffer.lanes = 1;
    each->buffer.dimensions = (int32_t)*request++;
    each->buffer.dim = each->dims;
    for (int32_t axis = 0; axis < each->buffer.dimensions; ++axis) each->dims[axis].extent = (int32_t)*request++;
    lay_out(each);
  }
  state = 0x9e3779b97f4a7c15ull * (seed + 1);
  printf("lengths %u\n", function);
  if (!find_lengths(twin, arguments, count, numbers)) {
    printf("refused %u %s\n", function, *failed ? failed : "too_large");
    return request;
  }
  for (uint32_t n = 0; n < count; ++n) {
    Argument* each = &arguments[n];
    if (each->kind == NUMBER) continue;
    const size_t size = each->buffer.bits / 8u, elements = lay_out(each);
    each->bytes = elements * size + 2 * PAD + 128;
    each->memory = aligned_alloc(128, (each->bytes + 127) / 128 * 128);
    memset(each->memory, 0xa5, each->bytes);
    each->buffer.host = each->memory + PAD + (shift ? shift : size);
    if (each->kind == INPUT) fill(each, elements, most_bits, n, in_floats);
  }
  printf("twin %u\n", function);
  int status = call(twin, arguments, count, numbers);
  for (uint32_t n = 0; n < count; ++n) {
    Argument* each = &arguments[n];
    if (each->kind != OUTPUT) continue;
    each->first = malloc(each->bytes);
    memcpy(each->first, each->memory, each->bytes);
    memset(each->memory, 0xa5, each->bytes);
  }
  if (status == 0) {
    printf("vector %u\n", function);
    status = call(vector, arguments, count, numbers);
  }
  if (status != 0) {
    printf("refused %u %s\n", function, failed);
  } else {
    compare(arguments, count, function, in_floats);
  }
  for (uint32_t n = 0; n < count; ++n) free(arguments[n].memory), free(arguments[n].first);
  return request;
}

int main(int argc, char** argv) {
  FILE* file = argc == 3 ? fopen(argv[1], "rb") : NULL;
  if (file == NULL) return 2;
  limit.it_value.tv_sec = atoi(argv[2]);
  setvbuf(stdout, NULL, _IONBF, 0);
  fseek(file, 0, SEEK_END);
  const long size = ftell(file);
  rewind(file);
  uint32_t* request = malloc((size_t)size + 4);
  if (fread(request, 1, (size_t)size, file) != (size_t)size) return 2;
  const uint32_t* end = request + size / 4;
  for (const uint32_t* at = request; at < end;) at = run(at);
  puts("end");
  return 0;
}
