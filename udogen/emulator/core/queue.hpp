// Executions that wait for their turn: of one context, one behind the other, on a thread of their own.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace emulator {

class Queue {
 public:
  /// How many may wait; 0: any number.
  void setDepth(std::size_t depth);
  /// Waits for room, and returns before the task runs; false once `finish` was called.
  bool push(std::function<void()> task);
  /// No more tasks; returns when all have run (called by a task: at once).
  void finish();

 private:
  /// What the thread needs, however long it lives.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> waiting;
    std::size_t depth = 0;
    bool runs = false, closed = false;
    std::thread::id thread;
  };
  static void work(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace emulator
