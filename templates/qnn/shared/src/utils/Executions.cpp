// Auto-generated part of every op package that udogen generates; regenerating rewrites this file.
#include "Executions.hpp"

#include <cstdio>
#include <cstring>

#if defined(__hexagon__) && !defined(__linux__)
#define UDO_DSP 1
extern "C" void HAP_debug(const char* text, int level, const char* file, int line);
#elif !defined(__hexagon__)
#include <cerrno>
#include <cstdlib>
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

#if !defined(__hexagon__)

/// Where counts are told; empty: nowhere.
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

/// A file that cannot be written is told now, while there is a log; and the process may change its folder later.
Place named(const char* name) {
#if defined(__linux__)
  if (getauxval(AT_SECURE) != 0) return {};
#endif
  const int file = opened(name);
  if (file < 0) {
    log(QNN_LOG_LEVEL_ERROR, "UDOGEN_PROVE=%s cannot be written: %s", name, std::strerror(errno));
    return {};
  }
  close(file);
  char* const whole = realpath(name, nullptr);
  const Place place = {whole != nullptr ? whole : name, getpid()};
  std::free(whole);
  return place;
}

/// In one write, so that the lines of several processes stay whole; a fork tells nothing of what its parent did.
void append(const Place& place, const std::string& lines) {
  if (getpid() != place.process) return;
  const int file = opened(place.file.c_str());
  if (file < 0) return;
  [[maybe_unused]] const ssize_t written = write(file, lines.data(), lines.size());
  close(file);
}

#endif

/// The environment is read once; never freed, for what is executed while the process ends is told too.
const Place& place() {
  static const char* const name = std::getenv("UDOGEN_PROVE");
  static const Place& found = *new Place(name != nullptr && *name != '\0' ? named(name) : Place{});
  return found;
}

#endif

}  // namespace

void Executions::begin() {
#if !defined(__hexagon__)
  place();
#endif
  ++users_;
}

bool Executions::end() {
  int users = users_.load();
  do {
    if (users == 0) return false;
  } while (!users_.compare_exchange_weak(users, users - 1));
  if (users == 1) tell(true);
  return true;
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

#if defined(__hexagon__)

void Executions::tell(bool) {
#if defined(UDO_DSP)
  for (std::size_t i = 0; i < size_; ++i) {
    char text[512];
    std::snprintf(text, sizeof text, "%s %s %llu %s", package_, counters_[i].op(),
                  static_cast<unsigned long long>(counters_[i].news()), counted_);
    HAP_debug(text, 2, "udo", 0);
  }
#endif
}

#else

Executions::~Executions() { tell(false); }

void Executions::tell(bool all) {
  if (place().file.empty()) return;
  std::string lines;
  for (std::size_t i = 0; i < size_; ++i) {
    const std::uint64_t news = counters_[i].news();
    if (!all && news == 0) continue;
    char number[24];
    std::snprintf(number, sizeof number, " %llu ", static_cast<unsigned long long>(news));
    lines += std::string(package_) + " " + counters_[i].op() + number + counted_ + "\n";
  }
  if (!lines.empty()) append(place(), lines);
}

#endif

}  // namespace udo
