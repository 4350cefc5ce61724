"""What a backend measures while it makes and runs graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from udogen.qnn import abi
from udogen.qnn.handle import Handle
from udogen.qnn.interface import QnnError, text_of

if TYPE_CHECKING:
    from udogen.qnn.backend import Backend


class Profile(Handle):
    """Collects what a backend measures."""

    def __init__(self, backend: Backend, *, detailed: bool = False) -> None:
        level = abi.ffi().integer_const(f"QNN_PROFILE_LEVEL_{'DETAILED' if detailed else 'BASIC'}")
        made = backend.interface.make("profileCreate", backend.raw, level)
        super().__init__(backend.interface, made, "profileFree")

    def events(self) -> list[ProfileEvent]:
        """Everything measured so far."""
        return self._events("profileGetEvents", self.raw)

    def _events(self, function: str, parent: Any) -> list[ProfileEvent]:
        ffi = abi.ffi()
        ids, count = ffi.new("QnnProfile_EventId_t const **"), ffi.new("uint32_t *")
        self.interface.call(function, parent, ids, count)
        events = []
        for index in range(count[0]):
            data, value = self._data(ids[0][index])
            below = tuple(self._events("profileGetSubEvents", ids[0][index]))
            events.append(ProfileEvent(text_of(data.identifier), data.type, value, data.unit, below))
        return events

    def _data(self, event: int) -> tuple[Any, int]:
        ffi = abi.ffi()
        data = ffi.new("QnnProfile_EventData_t *")
        try:
            self.interface.call("profileGetEventData", event, data)
            return data, data.value
        except QnnError as error:
            if error.row.name != "QNN_PROFILE_ERROR_INCOMPATIBLE_EVENT":
                raise
        # libQnnCpu 2.47 has the newer kind of event only.
        extended = ffi.new("QnnProfile_ExtendedEventData_t *")
        extended.version = ffi.integer_const("QNN_PROFILE_DATA_VERSION_1")
        self.interface.call("profileGetExtendedEventData", event, extended)
        number = extended.v1.value.dataType == ffi.integer_const("QNN_DATATYPE_UINT_64")
        return extended.v1, extended.v1.value.uint64Value if number else 0


@dataclass(frozen=True)
class ProfileEvent:
    """One measured value; `kind` and `unit` are QNN_PROFILE_EVENTTYPE_ and EVENTUNIT_ numbers."""

    name: str
    kind: int
    value: int
    unit: int
    below: tuple[ProfileEvent, ...]
