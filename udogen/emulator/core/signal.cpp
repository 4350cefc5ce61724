#include "signal.hpp"

#include "calls.hpp"

namespace emulator {
namespace {

thread_local const Signal* heard = nullptr;

Qnn_ErrorHandle_t signalCreate(Qnn_BackendHandle_t backend, const QnnSignal_Config_t** config, Qnn_SignalHandle_t* made) {
  if (made == nullptr) return QNN_SIGNAL_ERROR_INVALID_ARGUMENT;
  return guarded([&]() -> Qnn_ErrorHandle_t {
    if (objects().find<Backend>(backend) == nullptr) return QNN_SIGNAL_ERROR_INVALID_HANDLE;
    auto signal = std::make_shared<Signal>();
    const Qnn_ErrorHandle_t code = signal->configure(config);
    if (code == QNN_SUCCESS) *made = objects().add(std::move(signal));
    return code;
  });
}

Qnn_ErrorHandle_t signalSetConfig(Qnn_SignalHandle_t handle, const QnnSignal_Config_t** config) {
  const auto signal = objects().find<Signal>(handle);
  if (signal == nullptr) return QNN_SIGNAL_ERROR_INVALID_HANDLE;
  return signal->configure(config);
}

Qnn_ErrorHandle_t signalTrigger(Qnn_SignalHandle_t handle) {
  const auto signal = objects().find<Signal>(handle);
  if (signal == nullptr) return QNN_SIGNAL_ERROR_INVALID_HANDLE;
  return signal->trigger();
}

Qnn_ErrorHandle_t signalFree(Qnn_SignalHandle_t handle) {
  const auto signal = objects().find<Signal>(handle);
  if (signal == nullptr) return QNN_SIGNAL_ERROR_INVALID_HANDLE;
  if (signal->isInUse()) return QNN_SIGNAL_ERROR_SIGNAL_IN_USE;
  return objects().take<Signal>(handle) == nullptr ? QNN_SIGNAL_ERROR_INVALID_HANDLE : QNN_SUCCESS;
}

}  // namespace

Qnn_ErrorHandle_t Signal::configure(const QnnSignal_Config_t** config) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (inUse_) return QNN_SIGNAL_ERROR_SIGNAL_IN_USE;
  Does does = Does::nothing;
  std::uint64_t microseconds = 0;
  for (; config != nullptr && *config != nullptr; ++config) {
    const bool aborts = (*config)->option == QNN_SIGNAL_CONFIG_OPTION_ABORT;
    if (!aborts && (*config)->option != QNN_SIGNAL_CONFIG_OPTION_TIMEOUT) return QNN_SIGNAL_ERROR_INVALID_ARGUMENT;
    const Does wanted = aborts ? Does::abort : Does::timeout;
    if (does != Does::nothing && does != wanted) return QNN_SIGNAL_ERROR_INVALID_ARGUMENT;  // they exclude each other
    does = wanted;
    if (!aborts) microseconds = (*config)->timeoutDurationUs;
  }
  does_ = does;
  microseconds_ = microseconds;
  return QNN_SUCCESS;
}

bool Signal::acquire() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (inUse_) return false;
  inUse_ = true;
  aborted_ = false;
  const auto longest = std::chrono::hours(24 * 365);
  const auto wanted = std::chrono::microseconds(static_cast<std::int64_t>(microseconds_ >> 1)) * 2;
  end_ = std::chrono::steady_clock::now() + (wanted < longest ? std::chrono::microseconds(microseconds_) : longest);
  return true;
}

void Signal::release() {
  const std::lock_guard<std::mutex> lock(mutex_);
  inUse_ = false;
  idle_.notify_all();
}

Qnn_ErrorHandle_t Signal::trigger() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (does_ != Does::abort) return QNN_SIGNAL_ERROR_INCOMPATIBLE_SIGNAL_TYPE;
  if (!inUse_) return QNN_SIGNAL_ERROR_SIGNAL_IDLE;
  aborted_ = true;
  if (heard != this) idle_.wait(lock, [this] { return !inUse_; });  // an op of the call itself must not wait for it
  return QNN_SUCCESS;
}

bool Signal::isInUse() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return inUse_;
}

// Without the lock: what it reads does not change while the signal is in use.
Qnn_ErrorHandle_t Signal::verdict() const {
  if (aborted_) return QNN_GRAPH_ERROR_ABORTED;
  const bool late = does_ == Does::timeout && std::chrono::steady_clock::now() >= end_;
  return late ? static_cast<Qnn_ErrorHandle_t>(QNN_GRAPH_ERROR_TIMED_OUT) : QNN_SUCCESS;
}

Listening::Listening(const Signal* to) { heard = to; }
Listening::~Listening() { heard = nullptr; }

Qnn_ErrorHandle_t stopped() { return heard == nullptr ? QNN_SUCCESS : heard->verdict(); }

void fillSignal(QnnInterface_ImplementationV2_t& table) {
  table.signalCreate = signalCreate;
  table.signalSetConfig = signalSetConfig;
  table.signalTrigger = signalTrigger;
  table.signalFree = signalFree;
}

}  // namespace emulator
