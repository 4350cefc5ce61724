// Profiles: what the last call that was given one has measured, and of each node where the level asks for it.
#include <atomic>

#include "calls.hpp"

namespace emulator {
namespace {

// Events are found by their number alone, so numbers of all profiles are different.
std::mutex ownersMutex;
std::map<QnnProfile_EventId_t, std::weak_ptr<Profile>>& owners() {
  static auto* const all = new std::map<QnnProfile_EventId_t, std::weak_ptr<Profile>>;
  return *all;
}
std::atomic<QnnProfile_EventId_t> nextEvent{1};

std::shared_ptr<Profile> ownerOf(QnnProfile_EventId_t id) {
  const std::lock_guard<std::mutex> lock(ownersMutex);
  const auto found = owners().find(id);
  return found == owners().end() ? nullptr : found->second.lock();
}

void own(const std::shared_ptr<Profile>& profile) {
  const std::lock_guard<std::mutex> lock(ownersMutex);
  for (const auto& [id, _] : profile->events) owners()[id] = profile;
}

void disown(const Profile& profile) {
  const std::lock_guard<std::mutex> lock(ownersMutex);
  for (const auto& [id, _] : profile.events) owners().erase(id);
}

Qnn_ErrorHandle_t profileCreate(Qnn_BackendHandle_t backend, QnnProfile_Level_t level, Qnn_ProfileHandle_t* made) {
  if (made == nullptr) return QNN_PROFILE_ERROR_INVALID_ARGUMENT;
  if (level != QNN_PROFILE_LEVEL_BASIC && level != QNN_PROFILE_LEVEL_DETAILED) return QNN_PROFILE_ERROR_INVALID_ARGUMENT;
  return guarded([&]() -> Qnn_ErrorHandle_t {
    if (objects().find<Backend>(backend) == nullptr) return QNN_PROFILE_ERROR_INVALID_HANDLE;
    *made = objects().add(std::make_shared<Profile>(level));
    return QNN_SUCCESS;
  });
}

Qnn_ErrorHandle_t profileGetEvents(Qnn_ProfileHandle_t handle, const QnnProfile_EventId_t** ids, std::uint32_t* count) {
  return with<Profile>(handle, QNN_PROFILE_ERROR_INVALID_HANDLE, [&](const auto& profile) -> Qnn_ErrorHandle_t {
    if (ids == nullptr || count == nullptr) return QNN_PROFILE_ERROR_INVALID_ARGUMENT;
    const std::lock_guard<std::mutex> lock(profile->mutex);
    own(profile);
    *ids = profile->top.data();
    *count = static_cast<std::uint32_t>(profile->top.size());
    return QNN_SUCCESS;
  });
}

Qnn_ErrorHandle_t profileGetSubEvents(QnnProfile_EventId_t event, const QnnProfile_EventId_t** ids,
                                      std::uint32_t* count) {
  return guarded([&]() -> Qnn_ErrorHandle_t {
    const auto profile = ownerOf(event);
    if (profile == nullptr) return QNN_PROFILE_ERROR_INVALID_HANDLE;
    if (ids == nullptr || count == nullptr) return QNN_PROFILE_ERROR_INVALID_ARGUMENT;
    const std::lock_guard<std::mutex> lock(profile->mutex);
    const std::vector<QnnProfile_EventId_t>& below = profile->events.at(event).below;
    *ids = below.data();
    *count = static_cast<std::uint32_t>(below.size());
    return QNN_SUCCESS;
  });
}

Qnn_ErrorHandle_t profileGetEventData(QnnProfile_EventId_t event, QnnProfile_EventData_t* data) {
  return guarded([&]() -> Qnn_ErrorHandle_t {
    const auto profile = ownerOf(event);
    if (profile == nullptr) return QNN_PROFILE_ERROR_INVALID_HANDLE;
    if (data == nullptr) return QNN_PROFILE_ERROR_INVALID_ARGUMENT;
    const std::lock_guard<std::mutex> lock(profile->mutex);
    const Profile::Event& found = profile->events.at(event);
    *data = {found.type, QNN_PROFILE_EVENTUNIT_MICROSEC, found.microseconds, found.name.c_str()};
    return QNN_SUCCESS;
  });
}

Qnn_ErrorHandle_t profileGetExtendedEventData(QnnProfile_EventId_t event, QnnProfile_ExtendedEventData_t* data) {
  if (data == nullptr || data->version != QNN_PROFILE_DATA_VERSION_1) return QNN_PROFILE_ERROR_INVALID_ARGUMENT;
  QnnProfile_EventData_t plain = {};
  const Qnn_ErrorHandle_t code = profileGetEventData(event, &plain);
  if (code != QNN_SUCCESS) return code;
  data->v1 = {};
  data->v1.type = plain.type;
  data->v1.unit = plain.unit;
  data->v1.value.dataType = QNN_DATATYPE_UINT_64;
  data->v1.value.uint64Value = plain.value;
  data->v1.identifier = plain.identifier;
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t profileFree(Qnn_ProfileHandle_t handle) {
  return guarded([&]() -> Qnn_ErrorHandle_t {
    const auto profile = objects().take<Profile>(handle);
    if (profile == nullptr) return QNN_PROFILE_ERROR_INVALID_HANDLE;
    const std::lock_guard<std::mutex> lock(profile->mutex);
    disown(*profile);
    return QNN_SUCCESS;
  });
}

}  // namespace

void Profile::measure(const char* name, QnnProfile_EventType_t type, std::uint64_t microseconds,
                      const Measured& measured) {
  const std::lock_guard<std::mutex> lock(mutex);
  disown(*this);
  top.clear();
  events.clear();
  Event whole{name, type, microseconds, {}};
  for (const Measured::Row& row : measured.nodes) {
    const QnnProfile_EventId_t id = nextEvent++;
    events[id] = {row.name, QNN_PROFILE_EVENTTYPE_NODE, row.microseconds, {}};
    whole.below.push_back(id);
  }
  const QnnProfile_EventId_t id = nextEvent++;
  events[id] = std::move(whole);
  top.push_back(id);
}

void fillProfile(QnnInterface_ImplementationV2_t& table) {
  table.profileCreate = profileCreate;
  table.profileGetEvents = profileGetEvents;
  table.profileGetSubEvents = profileGetSubEvents;
  table.profileGetEventData = profileGetEventData;
  table.profileGetExtendedEventData = profileGetExtendedEventData;
  table.profileFree = profileFree;
}

}  // namespace emulator
