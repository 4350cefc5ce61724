"""The versions of Hexagon, one row each: what compiles for them, and how their libraries look."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple


class Release(NamedTuple):
    """A Hexagon SDK, and the version of the tools in it."""

    sdk: str
    tools: str


class Architecture(NamedTuple):
    """One version of Hexagon."""

    name: str
    flags: int  # e_flags of its ELF files
    releases: tuple[Release, ...]  # known to build for it, the one of Qualcomm's own Makefiles first
    qurt: str  # the folder of its real-time system in the SDK, below rtos/qurt
    verified: str  # how we know that what the open toolchain makes for it is right, for the README

    @property
    def variable(self) -> str:
        """How the variables of the vendor's Makefiles end: HEXAGON_SDK_ROOT_V73."""
        return self.name.upper()

    @property
    def oldest_tools(self) -> tuple[int, ...]:
        """The first tools that know it, as far as we know: major and minor of the oldest release."""
        return min(version(release.tools)[:2] for release in self.releases)


_BUILT = (
    "built by zig; symbols and layout checked against the real `libQnnHtp{}Skel.so`, loaded and run "
    "by a loader of ours under `qemu-hexagon`; not on hardware"
)

# SDK and tools: what the HTP Makefiles of qnn-op-package-generator say, SDK 2.37 to 2.47, found in public repositories.
ALL = {
    row.name: row
    for row in (
        Architecture("v68", 0x68, (Release("4.2.0", "8.4.09"),), "computev68", _BUILT.format("V68")),
        Architecture("v69", 0x69, (Release("4.3.0", "8.5.03"),), "computev68", _BUILT.format("V69")),
        Architecture("v73", 0x73, (Release("5.4.0", "8.6.02"),), "computev73", _BUILT.format("V73")),
        Architecture(
            "v75", 0x75, (Release("5.4.0", "8.7.03"), Release("5.5.5", "8.7.06")), "computev75", _BUILT.format("V75")
        ),
        Architecture(
            "v79", 0x79, (Release("6.0.0", "8.8.02"), Release("6.2.0", "8.8.06")), "computev79", _BUILT.format("V79")
        ),
        Architecture("v81", 0x81, (Release("6.4.0", "19.0.04"),), "computev81", _BUILT.format("V81")),
    )
}


def version(text: str) -> tuple[int, ...]:
    """The numbers of a version, to compare: 8.7.06 is (8, 7, 6); empty where it is none."""
    return tuple(int(number) for number in text.split(".")) if re.fullmatch(r"\d+(\.\d+)*", text) else ()


def by_flags(flags: int) -> Architecture | None:
    """The version that a Hexagon ELF file was built for, by its e_flags."""
    return next((row for row in ALL.values() if row.flags == flags & 0xFFFF), None)


def dsp_symbols() -> frozenset[str]:
    """What every library that is loaded on a DSP of V68 or later may leave undefined: the DSP itself has it."""
    lines = Path(__file__).with_name("dsp_symbols.txt").read_text("utf-8").splitlines()
    return frozenset(name for line in lines if not line.startswith("#") for name in line.split())
