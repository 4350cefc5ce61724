#include <atomic>
#include <cstdio>
#include <ctime>

// The DSP itself, not Linux on a Hexagon processor: its C library has no `stderr` and no `timespec_get`.  Qualcomm's
// libraries there write their messages with HAP_debug; its level 3 is an error.
#if defined(__hexagon__) && !defined(__linux__)
#define UDO_HAS_HAP 1
extern "C" void HAP_debug(const char* text, int level, const char* file, int line);
extern "C" int qurt_thread_get_id(void);
#endif

namespace udo {
namespace {

std::atomic<QnnLog_Callback_t> logCallback{nullptr};
std::atomic<int> logLevel{QNN_LOG_LEVEL_WARN};
std::atomic<bool> showsErrors{false};

#ifdef UDO_HAS_HAP
// Qualcomm's own libraries for HTP have no thread-local variables, so this one has none either.  Ids are small numbers.
const char*& runningOp() {
  static const char* ops[256] = {};
  return ops[static_cast<unsigned>(qurt_thread_get_id()) % 256];
}

std::uint64_t now() { return 0; }  // no clock exists in every version

void print(const char* format, std::va_list list) {
  char text[768];
  std::vsnprintf(text, sizeof text, format, list);
  HAP_debug(text, 3, "udo", 0);
}
#else
const char*& runningOp() {
  static thread_local const char* op = nullptr;
  return op;
}

std::uint64_t now() {
  std::timespec time{};
  std::timespec_get(&time, TIME_UTC);
  return static_cast<std::uint64_t>(time.tv_sec) * 1000000000u + static_cast<std::uint64_t>(time.tv_nsec);
}

void print(const char* format, std::va_list list) {
  std::vfprintf(stderr, format, list);
  std::fputc('\n', stderr);
}
#endif

void logList(QnnLog_Level_t level, const char* format, std::va_list list) {
  if (const QnnLog_Callback_t callback = logCallback.load()) {
    if (level <= logLevel.load()) callback(format, level, now(), list);
    return;
  }
  if (level > QNN_LOG_LEVEL_WARN) return;
  print(format, list);
}

}  // namespace

Qnn_ErrorHandle_t logInitialize(QnnLog_Callback_t callback, QnnLog_Level_t level) {
  logLevel.store(level);
  logCallback.store(callback);
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t logSetLevel(QnnLog_Level_t level) {
  logLevel.store(level);
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t logTerminate() { return logInitialize(nullptr, QNN_LOG_LEVEL_WARN); }

void showErrors() { showsErrors.store(true); }

void log(QnnLog_Level_t level, const char* format, ...) {
  std::va_list list;
  va_start(list, format);
  logList(level, format, list);
  va_end(list);
}

Status error(const char* format, ...) {
  std::va_list list;
  va_start(list, format);
  const Status status = errorList(format, list);
  va_end(list);
  return status;
}

Status errorList(const char* format, std::va_list list) {
  char text[768];
  std::vsnprintf(text, sizeof text, format, list);
  const char* const op = runningOp();
  const char* const before = op == nullptr ? "" : "op ";
  const char* const after = op == nullptr ? "" : ": ";
  log(QNN_LOG_LEVEL_ERROR, "%s%s%s%s", before, op == nullptr ? "" : op, after, text);
#ifndef UDO_HAS_HAP
  if (showsErrors.load() && logCallback.load() != nullptr) {
    std::fprintf(stderr, "%s%s%s%s\n", before, op == nullptr ? "" : op, after, text);
  }
#endif
  return QNN_OP_PACKAGE_ERROR_GENERAL;
}

Status notImplemented(const char* op, const char* file) {
  error("%s is not implemented: write execute() in %s", op, file);
  return QNN_OP_PACKAGE_ERROR_UNSUPPORTED_FEATURE;
}

Running::Running(const char* op) : outer_(runningOp()) { runningOp() = op; }
Running::~Running() { runningOp() = outer_; }

}  // namespace udo
