// Part of every op package that udogen generates; regenerating rewrites this file.
#include "BackendUtils.hpp"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <ctime>

namespace udo {
namespace {

std::atomic<QnnLog_Callback_t> logCallback{nullptr};
std::atomic<int> logLevel{QNN_LOG_LEVEL_WARN};
thread_local const char* runningOp = nullptr;

std::uint64_t now() {
  std::timespec time{};
  std::timespec_get(&time, TIME_UTC);
  return static_cast<std::uint64_t>(time.tv_sec) * 1000000000u + static_cast<std::uint64_t>(time.tv_nsec);
}

void logList(QnnLog_Level_t level, const char* format, std::va_list list) {
  if (const QnnLog_Callback_t callback = logCallback.load()) {
    if (level <= logLevel.load()) callback(format, level, now(), list);
    return;
  }
  if (level > QNN_LOG_LEVEL_WARN) return;
  std::vfprintf(stderr, format, list);
  std::fputc('\n', stderr);
}

}  // namespace

void setLog(QnnLog_Callback_t callback, QnnLog_Level_t level) {
  logLevel.store(level);
  logCallback.store(callback);
}

void setLogLevel(QnnLog_Level_t level) { logLevel.store(level); }

void log(QnnLog_Level_t level, const char* format, ...) {
  std::va_list list;
  va_start(list, format);
  logList(level, format, list);
  va_end(list);
}

Status error(const char* format, ...) {
  char text[768];
  std::va_list list;
  va_start(list, format);
  std::vsnprintf(text, sizeof text, format, list);
  va_end(list);
  if (runningOp != nullptr) {
    log(QNN_LOG_LEVEL_ERROR, "op %s: %s", runningOp, text);
  } else {
    log(QNN_LOG_LEVEL_ERROR, "%s", text);
  }
  return QNN_OP_PACKAGE_ERROR_GENERAL;
}

Status notImplemented(const char* op, const char* file) {
  error("%s is not implemented: write execute() in %s", op, file);
  return QNN_OP_PACKAGE_ERROR_UNSUPPORTED_FEATURE;
}

Running::Running(const char* op) : outer_(runningOp) { runningOp = op; }
Running::~Running() { runningOp = outer_; }

}  // namespace udo
