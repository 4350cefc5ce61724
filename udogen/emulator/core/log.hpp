// The client's log, handed on to op packages.
#pragma once

#include <atomic>

#include "QnnLog.h"
#include "objects.hpp"

namespace emulator {

struct Log : Object {
  static constexpr Kind itsKind = Kind::log;
  Log(QnnLog_Callback_t callback, QnnLog_Level_t level) : Object(itsKind), callback(callback), level(level) {}

  const QnnLog_Callback_t callback;  // null: stderr
  std::atomic<QnnLog_Level_t> level;
};

/// Where messages go; copies share one log.
class Logger {
 public:
  Logger() = default;
  explicit Logger(std::shared_ptr<Log> log) : log_(std::move(log)) {}

  [[gnu::format(printf, 2, 3)]] void error(const char* format, ...) const;
  [[gnu::format(printf, 2, 3)]] void warn(const char* format, ...) const;
  [[gnu::format(printf, 2, 3)]] void info(const char* format, ...) const;
  const std::shared_ptr<Log>& log() const { return log_; }

 private:
  std::shared_ptr<Log> log_;  // null: the client has none, and hears errors and warnings on stderr
};

}  // namespace emulator
