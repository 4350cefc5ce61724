// The functions of the table, by the groups in which the public headers have them.
#pragma once

#include <exception>
#include <new>

#include "model.hpp"

namespace emulator {

/// What clients are told of the core API.  They refuse a library whose minor version is below that of their own headers; our
/// headers end at 2.32.  The tables of SDK 2.47 to 2.51 (2.36 to 2.40) differ from those by entries at their end, seen in their
/// libraries: one more in 2.36, three more in 2.40.  Ours has them all, and they answer "not supported".
constexpr Qnn_Version_t announced = {QNN_API_VERSION_MAJOR, 40, 0};
constexpr std::size_t laterEntries = 4;

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
void fillSignal(QnnInterface_ImplementationV2_t& table);
/// What no engine has: each answers the code that is documented for it.
void fillUnsupported(QnnInterface_ImplementationV2_t& table);

}  // namespace emulator
