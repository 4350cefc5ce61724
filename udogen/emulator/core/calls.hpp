// The functions of the table, by the groups in which the public headers have them.
#pragma once

#include <exception>
#include <new>

#include "model.hpp"

namespace emulator {

/// No exception leaves the library.
template <class Call>
Qnn_ErrorHandle_t guarded(const Call& call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return QNN_COMMON_ERROR_MEM_ALLOC;
  } catch (const std::exception&) {
    return QNN_COMMON_ERROR_GENERAL;
  }
}

/// The same with the object behind a handle; `missing` if it is none.
template <class Object, class Call>
Qnn_ErrorHandle_t with(const void* handle, Qnn_ErrorHandle_t missing, const Call& call) {
  return guarded([&] {
    const auto found = objects().find<Object>(handle);
    return found == nullptr ? missing : call(found);
  });
}

/// The profile behind a handle that may be null; false for a handle that is none.
inline bool findProfile(Qnn_ProfileHandle_t handle, std::shared_ptr<Profile>& found) {
  if (handle == nullptr) return true;
  return (found = objects().find<Profile>(handle)) != nullptr;
}

void fillBackend(QnnInterface_ImplementationV2_t& table);
void fillContext(QnnInterface_ImplementationV2_t& table);
void fillGraph(QnnInterface_ImplementationV2_t& table);
void fillMem(QnnInterface_ImplementationV2_t& table);
void fillProfile(QnnInterface_ImplementationV2_t& table);
/// What no engine has: each returns the code that is documented for it.
void fillUnsupported(QnnInterface_ImplementationV2_t& table);

}  // namespace emulator
