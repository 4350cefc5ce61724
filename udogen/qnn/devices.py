"""The devices of the platform, as a backend sees them: HTP0, HTP1 …"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from udogen.qnn import abi
from udogen.qnn.interface import Interface


@dataclass(frozen=True)
class DeviceInfo:
    """One processor; numbers that the backend does not tell are 0."""

    number: int
    soc: int
    arch: int  # version of Hexagon: 73
    tcm: int  # bytes of tightly coupled memory
    cores: int

    @property
    def name(self) -> str:
        """What people call it."""
        return f"HTP{self.number}"


def devices(interface: Interface) -> tuple[DeviceInfo, ...]:
    """Every device, in the order of its number; raises `QnnError` where the backend does not tell."""
    ffi = abi.ffi()
    info = ffi.new("QnnDevice_PlatformInfo_t const **")
    interface.call("deviceGetPlatformInfo", ffi.NULL, info)
    try:
        rows = (info[0].v1.hwDevices[index].v1 for index in range(info[0].v1.numHwDevices))
        found = [_device(row, htp="HTP" in interface.name) for row in rows]
    finally:
        interface.call("deviceFreePlatformInfo", ffi.NULL, info[0])
    return tuple(sorted(found, key=lambda each: each.number))


def _device(row: Any, *, htp: bool) -> DeviceInfo:
    extension = row.deviceInfoExtension
    on_chip = None
    if htp and extension and extension.devType == abi.ffi().integer_const("QNN_HTP_DEVICE_TYPE_ON_CHIP"):
        on_chip = extension.onChipDevice
    return DeviceInfo(
        number=row.deviceId,
        soc=on_chip.socModel if on_chip else 0,
        arch=on_chip.arch if on_chip else 0,
        tcm=(on_chip.vtcmSize << 20) if on_chip else 0,
        cores=row.numCores,
    )
