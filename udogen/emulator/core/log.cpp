#include "log.hpp"

#include <chrono>
#include <cstdarg>
#include <cstdio>

namespace emulator {
namespace {

void write(const std::shared_ptr<Log>& log, QnnLog_Level_t level, const char* format, std::va_list list) {
  if (log != nullptr && log->callback != nullptr) {
    if (level > log->level.load()) return;
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    log->callback(format, level, static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count()), list);
    return;
  }
  if (level > (log == nullptr ? QNN_LOG_LEVEL_WARN : log->level.load())) return;
  std::vfprintf(stderr, format, list);
  std::fputc('\n', stderr);
}

}  // namespace

Objects& objects() {
  static auto* const all = new Objects;  // never destroyed: what a client forgot to free outlives us
  return *all;
}

void Logger::error(const char* format, ...) const {
  std::va_list list;
  va_start(list, format);
  write(log_, QNN_LOG_LEVEL_ERROR, format, list);
  va_end(list);
}

void Logger::warn(const char* format, ...) const {
  std::va_list list;
  va_start(list, format);
  write(log_, QNN_LOG_LEVEL_WARN, format, list);
  va_end(list);
}

void Logger::info(const char* format, ...) const {
  std::va_list list;
  va_start(list, format);
  write(log_, QNN_LOG_LEVEL_INFO, format, list);
  va_end(list);
}

}  // namespace emulator
