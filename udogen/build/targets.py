"""What a make target builds, one row each."""

from __future__ import annotations

from typing import NamedTuple

from udogen.build import architectures


class Target(NamedTuple):
    """One make target: where its library goes, and the machine it is for."""

    id: str
    backend: str
    folders: tuple[str, ...]  # below libs/; of several the toolchain chooses one, by itself the first is meant
    machine: str  # in words
    compiler: str  # the toolchain's word for what it must be able to compile for: x86, aarch64, android, hexagon, …
    verified: str  # how we know that it works, for the README
    native: bool = False  # runs on this machine
    arch: str = ""  # the version of Hexagon

    @property
    def folder(self) -> str:
        """Where its library goes, unless the toolchain says otherwise."""
        return self.folders[0]


_STAND_IN = "command line recorded by a stand-in {}; not built with a real NDK, not run on hardware"

ALL = {
    row.id: row
    for row in (
        Target(
            "cpu_x86",
            "cpu",
            ("x86_64-linux-clang",),
            "x86-64 Linux",
            "x86",
            "registered, executed and compared with numpy in the real `libQnnCpu.so` (SDK 2.47)",
            native=True,
        ),
        Target(
            "cpu_aarch64",
            "cpu",
            ("aarch64-linux-gnu",),
            "aarch64 Linux",
            "aarch64",
            "built by zig, its ELF inspected; not run: no public aarch64 `libQnnCpu.so`",
        ),
        Target(
            "cpu_android",
            "cpu",
            ("arm64-v8a",),
            "Android arm64-v8a",
            "android",
            _STAND_IN.format("`ndk-build`"),
        ),
        Target(
            "gpu_x86",
            "gpu",
            ("x86_64-linux-clang",),
            "x86-64 Linux",
            "x86",
            "registered, executed and compared with numpy in udogen's own GPU emulator on PoCL (OpenCL on the CPU)",
            native=True,
        ),
        Target(
            "gpu_aarch64",
            "gpu",
            ("aarch64-linux-gnu",),
            "aarch64 Linux",
            "aarch64",
            "built by zig, its ELF inspected; not run: no public `libQnnGpu.so` runs without an Adreno GPU",
        ),
        Target(
            "gpu_android",
            "gpu",
            ("arm64-v8a",),
            "Android arm64-v8a",
            "android",
            _STAND_IN.format("`ndk-build`"),
        ),
        Target(
            "htp_x86",
            "htp",
            ("x86_64-linux-clang",),
            "x86-64 Linux",
            "x86",
            "registered, executed and compared with numpy in the real `libQnnHtp.so` (Qualcomm's emulator), "
            "one binary on SDK 2.47 to 2.51",
            native=True,
        ),
        Target(
            "htp_aarch64",
            "htp",
            ("aarch64-android", "aarch64-linux-gnu"),
            "Android arm64-v8a with the NDK, else aarch64 Linux",
            "arm64",
            "built by zig, symbols checked against the real aarch64 `libQnnHtpPrepare.so`; not run on hardware",
        ),
        Target(
            "htp_android",
            "htp",
            ("aarch64-android",),
            "Android arm64-v8a",
            "ndk",
            _STAND_IN.format("`clang++` of the NDK"),
        ),
        *(
            Target(
                f"htp_{arch.name}",
                "htp",
                (f"hexagon-{arch.name}",),
                f"Hexagon {arch.name}",
                "hexagon",
                arch.verified,
                arch=arch.name,
            )
            for arch in architectures.ALL.values()
        ),
    )
}

# Names that stand for several.
_HTP = ("htp_x86", "htp_aarch64", *(f"htp_{name}" for name in architectures.ALL))
GROUPS = {
    "cpu": ("cpu_x86", "cpu_android"),
    "gpu": ("gpu_x86", "gpu_android"),
    "htp": _HTP,
    "all": ("cpu_x86", "cpu_android", "gpu_x86", "gpu_android", *_HTP),
    "all_x86": ("cpu_x86", "gpu_x86", "htp_x86"),
    "all_aarch64": ("cpu_aarch64", "gpu_aarch64", "htp_aarch64"),
    "all_android": ("cpu_android", "gpu_android", "htp_android"),
}


def of_backend(backend: str) -> tuple[str, ...]:
    """The targets of a backend, in the order of the table."""
    return tuple(row.id for row in ALL.values() if row.backend == backend)


def expand(names: tuple[str, ...], offered: tuple[str, ...]) -> tuple[Target, ...] | str:
    """The targets behind names (none: what runs here); the name itself where a package does not offer it."""
    found: dict[str, Target] = {}
    for name in names or tuple(target for target in offered if target in ALL and ALL[target].native):
        meant = [target for target in GROUPS.get(name, (name,)) if target in offered and target in ALL]
        if not meant:
            return name
        found.update({target: ALL[target] for target in meant})
    return tuple(found.values())
