// What clients hold: handles.  A handle is a number that no other object ever had, and is looked up at each call; so one
// that was freed, is of another kind or was never given is recognized, and nothing is freed under a call that runs.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace emulator {

enum class Kind { log, backend, device, context, graph, profile, mem, systemContext };

class Object {
 public:
  explicit Object(Kind kind) : kind(kind) {}
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  const Kind kind;
};

class Objects {
 public:
  /// A handle for this object.
  void* add(std::shared_ptr<Object> object) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::uintptr_t number = next_;
    next_ += 16;
    objects_.emplace(number, std::move(object));
    return reinterpret_cast<void*>(number);
  }

  /// The object behind a handle; null if none of this kind exists.
  template <class T>
  std::shared_ptr<T> find(const void* handle) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (found == objects_.end() || found->second->kind != T::itsKind) return nullptr;
    return std::static_pointer_cast<T>(found->second);
  }

  /// All of one kind.
  template <class T>
  std::vector<std::shared_ptr<T>> all() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::shared_ptr<T>> found;
    for (const auto& [_, object] : objects_) {
      if (object->kind == T::itsKind) found.push_back(std::static_pointer_cast<T>(object));
    }
    return found;
  }

  /// Forgets a handle and gives what was behind it.
  template <class T>
  std::shared_ptr<T> take(const void* handle) {
    std::shared_ptr<T> found = find<T>(handle);
    const std::lock_guard<std::mutex> lock(mutex_);
    return found != nullptr && objects_.erase(reinterpret_cast<std::uintptr_t>(handle)) == 1 ? found : nullptr;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uintptr_t, std::shared_ptr<Object>> objects_;
  std::uintptr_t next_ = 0x10010;
};

/// Those of this library.
Objects& objects();

}  // namespace emulator
