// Included before all sources of an emulator: each lock is followed by a pause.  Without it, Python's global lock keeps
// short calls of two threads from overlapping, and their races are not seen.
#include <chrono>
#include <mutex>
#include <thread>

namespace std {
template <class Mutex>
class paused_lock {
 public:
  explicit paused_lock(Mutex& mutex) : mutex_(mutex) {
#ifndef WITHOUT_LOCKS
    mutex_.lock();
#endif
  }
  ~paused_lock() {
#ifndef WITHOUT_LOCKS
    mutex_.unlock();
#endif
    this_thread::sleep_for(chrono::microseconds(200));
  }
  paused_lock(const paused_lock&) = delete;

 private:
  Mutex& mutex_;
};
}  // namespace std

#define lock_guard paused_lock
