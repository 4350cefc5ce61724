// Auto-generated part of every op package that udogen generates; regenerating rewrites this file.
#include "Executions.hpp"

#include <cstdio>
#include <cstring>

#if defined(__hexagon__) && !defined(__linux__)
#define UDO_HAS_HAP 1
extern "C" void HAP_debug(const char* text, int level, const char* file, int line);
#elif defined(UDO_PROVE) && !defined(__hexagon__)
#define UDO_WRITES_FILE 1
#include <cerrno>
#include <cstdlib>
#include <new>
#include <string>
#if !defined(_WIN32)
#include <fcntl.h>
#include <unistd.h>
#endif
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#endif

namespace udo {
namespace {

#if defined(UDO_HAS_HAP) || defined(UDO_WRITES_FILE)

/// A line of text, made without functions that differ in the C library of the DSP.
class Line {
 public:
  static constexpr std::size_t most = 512;

  explicit Line(char* text) : at_(text), end_(text + most - 1) { *at_ = '\0'; }

  Line& add(const char* text) {
    while (*text != '\0' && at_ != end_) *at_++ = *text++;
    *at_ = '\0';
    return *this;
  }
  Line& add(std::uint64_t number) {
    if (number >= 10) add(number / 10);
    const char digit[] = {static_cast<char>('0' + number % 10), '\0'};
    return add(digit);
  }

 private:
  char* at_;
  char* const end_;
};

#endif
#if defined(UDO_WRITES_FILE)

/// The file for counts; empty: none.
struct Place {
  std::string file;
  int process = 0;
};

#if defined(_WIN32)

Place named(const char* name) { return {name, 0}; }

void append(const Place& place, const std::string& lines) {
  std::FILE* const stream = std::fopen(place.file.c_str(), "ab");
  if (stream == nullptr) return;
  std::fwrite(lines.data(), 1, lines.size(), stream);
  std::fclose(stream);
}

#else

int opened(const char* name) { return open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666); }

/// Opens the file once, so that errors are reported now; its path becomes absolute, as the process may change its
/// folder.
Place named(const char* name) {
#if defined(__linux__)
  if (getauxval(AT_SECURE) != 0) return {};
#endif
  const int file = opened(name);
  if (file < 0) {
    std::fprintf(stderr, "UDOGEN_PROVE=%s cannot be written: %s\n", name, std::strerror(errno));
    return {};
  }
  close(file);
  char* const whole = realpath(name, nullptr);
  const Place place = {whole != nullptr ? whole : name, getpid()};
  std::free(whole);
  return place;
}

/// In one write, so that lines of several processes do not mix; a forked process does not write the counts of its
/// parent.
void append(const Place& place, const std::string& lines) {
  if (getpid() != place.process) return;
  const int file = opened(place.file.c_str());
  if (file < 0) return;
  [[maybe_unused]] const ssize_t written = write(file, lines.data(), lines.size());
  close(file);
}

#endif

/// The environment is read once.  The result is never destroyed: executions while the process ends count, too.
const Place& place() {
  alignas(Place) static unsigned char memory[sizeof(Place)];
  static const char* const name = std::getenv("UDOGEN_PROVE");
  static const Place& found = *new (memory) Place(name != nullptr && *name != '\0' ? named(name) : Place{});
  return found;
}

#endif

}  // namespace

Status Executions::begin() {
#if defined(UDO_WRITES_FILE)
  place();
#endif
  ++users_;
  return ok;
}

Status Executions::end() {
  int users = users_.load();
  do {
    if (users == 0) return QNN_OP_PACKAGE_ERROR_LIBRARY_NOT_INITIALIZED;
  } while (!users_.compare_exchange_weak(users, users - 1));
  if (users == 1) report(true);
  return ok;
}

std::uint64_t Executions::of(const char* op) const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < size_; ++i) {
    const std::uint64_t count = counters_[i].count();
    if (op != nullptr && std::strcmp(op, counters_[i].op()) == 0) return count;
    sum += count;
  }
  return op == nullptr ? sum : UINT64_MAX;
}

#if defined(UDO_WRITES_FILE)

// Not every client terminates what it has initialized: then zeros, too, are written here.
Executions::~Executions() { report(isUsed()); }

void Executions::report(bool all) {
  if (place().file.empty()) return;
  std::string lines;
  char text[Line::most];
  for (std::size_t i = 0; i < size_; ++i) {
    const std::uint64_t news = counters_[i].news();
    if (!all && news == 0) continue;
    Line(text).add(package_).add(" ").add(counters_[i].op()).add(" ").add(news).add(" ").add(counted_).add("\n");
    lines += text;
  }
  if (!lines.empty()) append(place(), lines);
}

#elif defined(UDO_HAS_HAP)

void Executions::report(bool) {
  char text[Line::most];
  for (std::size_t i = 0; i < size_; ++i) {
    Line(text).add(package_).add(" ").add(counters_[i].op()).add(" ").add(counters_[i].news()).add(" ").add(counted_);
    HAP_debug(text, 2, "udo", 0);
  }
}

#else

void Executions::report(bool) {}

#endif

}  // namespace udo
