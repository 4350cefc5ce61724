#include "queue.hpp"

namespace emulator {

void Queue::setDepth(std::size_t depth) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->depth = depth;
}

bool Queue::push(std::function<void()> task) {
  std::unique_lock<std::mutex> lock(state_->mutex);
  const bool own = state_->runs && state_->thread == std::this_thread::get_id();  // who makes room must not wait for it
  state_->changed.wait(lock, [&] {
    return own || state_->closed || state_->depth == 0 || state_->waiting.size() < state_->depth;
  });
  if (state_->closed) return false;
  state_->waiting.push_back(std::move(task));
  if (!state_->runs) {
    state_->runs = true;
    std::thread thread(work, state_);
    state_->thread = thread.get_id();
    thread.detach();
  }
  return true;
}

// The thread ends when nothing waits any more, so that a context without executions has none.
void Queue::work(const std::shared_ptr<State>& state) {
  std::unique_lock<std::mutex> lock(state->mutex);
  while (!state->waiting.empty()) {
    std::function<void()> task = std::move(state->waiting.front());
    state->waiting.pop_front();
    state->changed.notify_all();
    lock.unlock();
    task();
    task = nullptr;  // what it holds may be freed here, not under the lock
    lock.lock();
  }
  state->runs = false;
  state->thread = std::thread::id();
  state->changed.notify_all();
}

void Queue::finish() {
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->closed = true;
  state_->changed.notify_all();
  if (state_->thread == std::this_thread::get_id()) return;
  state_->changed.wait(lock, [this] { return !state_->runs; });
}

}  // namespace emulator
