"""What a make target builds, one row each."""

from __future__ import annotations

from typing import NamedTuple


class Target(NamedTuple):
    """One make target: where its library goes, and the machine it is for."""

    id: str
    backend: str
    folder: str  # below libs/
    machine: str  # in words
    compiler: str  # the toolchain's word for what it must be able to compile for: x86, aarch64, android
    verified: str  # how we know that it works, for the README
    native: bool = False  # runs on this machine


ALL = {
    row.id: row
    for row in (
        Target(
            "cpu_x86",
            "cpu",
            "x86_64-linux-clang",
            "x86-64 Linux",
            "x86",
            "registered, executed and compared with numpy in the real `libQnnCpu.so` (SDK 2.47)",
            native=True,
        ),
        Target(
            "cpu_aarch64",
            "cpu",
            "aarch64-linux-gnu",
            "aarch64 Linux",
            "aarch64",
            "built by zig, its ELF inspected; not run: no public aarch64 `libQnnCpu.so`",
        ),
        Target(
            "cpu_android",
            "cpu",
            "arm64-v8a",
            "Android arm64-v8a",
            "android",
            "command line recorded by a stand-in `ndk-build`; not built with a real NDK, not run on hardware",
        ),
        Target(
            "htp_x86",
            "htp",
            "x86_64-linux-clang",
            "x86-64 Linux",
            "x86",
            "registered, executed and compared with numpy in the real `libQnnHtp.so` (Qualcomm's emulator), "
            "one binary on SDK 2.47 to 2.51",
            native=True,
        ),
    )
}

# Names that stand for several.
GROUPS = {
    "cpu": ("cpu_x86", "cpu_android"),
    "all_x86": ("cpu_x86", "htp_x86"),
    "all_aarch64": ("cpu_aarch64",),
    "all_android": ("cpu_android",),
    "all": ("cpu_x86", "cpu_android", "htp_x86"),
    "htp": ("htp_x86",),
}


def expand(names: tuple[str, ...], offered: tuple[str, ...]) -> tuple[Target, ...] | str:
    """The targets behind names (none: what runs here); the name itself where a package does not offer it."""
    found: dict[str, Target] = {}
    for name in names or tuple(target for target in offered if target in ALL and ALL[target].native):
        meant = [target for target in GROUPS.get(name, (name,)) if target in offered and target in ALL]
        if not meant:
            return name
        found.update({target: ALL[target] for target in meant})
    return tuple(found.values())
