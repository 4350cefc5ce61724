// Signals: a call that was given one can be ended by another thread, or by the clock.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>

#include "QnnCommon.h"
#include "QnnSignal.h"
#include "objects.hpp"

namespace emulator {

struct Signal : Object {
  static constexpr Kind itsKind = Kind::signal;
  Signal() : Object(itsKind) {}

  enum class Does { nothing, abort, timeout };

  /// Takes a config; false where it is none, or in use.
  Qnn_ErrorHandle_t configure(const QnnSignal_Config_t** config);
  /// Belongs to a call from now on; false where it belongs to one already.
  bool acquire();
  void release();
  Qnn_ErrorHandle_t trigger();
  bool isInUse();
  /// 6031 or 6033 where the call shall end.
  Qnn_ErrorHandle_t verdict() const;

 private:
  std::mutex mutex_;
  std::condition_variable idle_;
  bool inUse_ = false;
  Does does_ = Does::nothing;
  std::uint64_t microseconds_ = 0;
  std::chrono::steady_clock::time_point end_;
  std::atomic<bool> aborted_{false};
};

/// For as long as it lives, calls of this thread can be ended by a signal; null: by none.
class Listening {
 public:
  explicit Listening(const Signal* to);
  ~Listening();
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
};

/// What an engine asks between two nodes: not 0 where the call shall end, and then the code that it returns.
Qnn_ErrorHandle_t stopped();

}  // namespace emulator
