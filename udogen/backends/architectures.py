"""The versions of Hexagon: tools that compile for them, and facts about their libraries."""

from __future__ import annotations

import re
from typing import NamedTuple


class Release(NamedTuple):
    """A Hexagon SDK, and the version of the tools in it."""

    sdk: str
    tools: str


class Architecture(NamedTuple):
    """One version of Hexagon."""

    name: str
    backend: str  # htp, or before V68 dsp
    flags: int  # e_flags of its ELF files
    releases: tuple[Release, ...]  # that can build for it, the one in Qualcomm's Makefiles first
    qurt: str  # the folder of its real-time system in the SDK
    verified: str  # how builds of the open toolchain were verified, for the README
    tools_before: str = ""  # the first tools that no longer support it, if documented
    open: bool = True  # zig compiles for it; otherwise it is not in groups of targets

    @property
    def variable(self) -> str:
        """The suffix of variables in the vendor's Makefiles: HEXAGON_SDK_ROOT_V73."""
        return self.name.upper()

    @property
    def oldest_tools(self) -> tuple[int, ...]:
        """The first tools that support it: major and minor of the oldest known release."""
        return min(version(release.tools)[:2] for release in self.releases)


_BUILT = (
    "built by zig; symbols and layout checked against the real `libQnnHtp{}Skel.so`, loaded and run "
    "by udogen's loader under `qemu-hexagon`; not on hardware"
)

_BUILT_DSP = (
    "built by zig; symbols and layout checked against real libraries of V65 and V66, the kernel run under "
    "`qemu-hexagon` by udogen's harness in place of the DSP; not on hardware"
)
_SDK3 = (Release("3.5.2", "8.3.07"),)

# V65 and V66: from the Makefiles of snpe-udo-package-generator 2.12, found in a public repository.
# SDK and tools: from the HTP Makefiles of qnn-op-package-generator, SDK 2.37 to 2.47, found in public repositories.
ALL = {
    row.name: row
    for row in (
        Architecture("v65", "dsp", 0x65, _SDK3, "libs/common/qurt/computev65", _BUILT_DSP, "8.4"),
        Architecture("v66", "dsp", 0x66, _SDK3, "libs/common/qurt/computev66", _BUILT_DSP, "8.4"),
        Architecture("v68", "htp", 0x68, (Release("4.2.0", "8.4.09"),), "rtos/qurt/computev68", _BUILT.format("V68")),
        Architecture("v69", "htp", 0x69, (Release("4.3.0", "8.5.03"),), "rtos/qurt/computev68", _BUILT.format("V69")),
        Architecture("v73", "htp", 0x73, (Release("5.4.0", "8.6.02"),), "rtos/qurt/computev73", _BUILT.format("V73")),
        Architecture(
            "v75",
            "htp",
            0x75,
            (Release("5.4.0", "8.7.03"), Release("5.5.5", "8.7.06")),
            "rtos/qurt/computev75",
            _BUILT.format("V75"),
        ),
        Architecture(
            "v79",
            "htp",
            0x79,
            (Release("6.0.0", "8.8.02"), Release("6.2.0", "8.8.06")),
            "rtos/qurt/computev79",
            _BUILT.format("V79"),
        ),
        Architecture("v81", "htp", 0x81, (Release("6.4.0", "19.0.04"),), "rtos/qurt/computev81", _BUILT.format("V81")),
        Architecture(
            "v85",
            "htp",
            0x85,
            (Release("6.5.0", "21.0.03"),),  # from the Makefile of SDK 2.47, as quoted in a public report
            "rtos/qurt/computev85",
            "tried with a stand-in of the Hexagon SDK only: zig does not support it",
            open=False,
        ),
    )
}


def of_backend(backend: str) -> dict[str, Architecture]:
    """The versions on which a backend runs, by name."""
    return {row.name: row for row in ALL.values() if row.backend == backend}


def version(text: str) -> tuple[int, ...]:
    """The numbers of a version, for comparison: 8.7.06 is (8, 7, 6); empty if the text is not a version."""
    return tuple(int(number) for number in text.split(".")) if re.fullmatch(r"\d+(\.\d+)*", text) else ()
