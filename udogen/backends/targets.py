"""What a make target builds, one row each."""

from __future__ import annotations

from typing import NamedTuple

from udogen.backends import architectures


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
    ending: str = ""  # of its library's name, where several libraries of a package lie in one folder

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
            "built by zig, its ELF inspected; run under `qemu-aarch64` in udogen's own CPU emulator; not in a "
            "`libQnnCpu.so`: none is public",
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
                f"{arch.backend}_{arch.name}",
                arch.backend,
                (f"hexagon-{arch.name}",),
                f"Hexagon {arch.name}",
                "hexagon",
                arch.verified,
                arch=arch.name,
            )
            for arch in architectures.ALL.values()
        ),
        Target(
            "converter_x86",
            "converter",
            ("",),
            "x86-64 Linux, where converters run",
            "x86",
            "built, loaded by a host of ours that asks for shapes and types; not tried with Qualcomm's converters",
            native=True,
        ),
    )
}

# --- the layout of the UDO documentation ---------------------------------------------------------------------

_UDO_FOLDERS = {"x86_64-linux-clang": "x86-64_linux_clang", "aarch64-android": "arm64-v8a"}
_OLD_DSP = "dsp_v60"  # of every version before V68, as documented


def _udo(row: Target) -> Target:
    """A target as the UDO documentation calls it: HTP is the DSP, and libraries lie in other folders."""
    if row.backend == "dsp":
        return row._replace(folders=(_OLD_DSP,))
    folders = tuple(_UDO_FOLDERS.get(each, each.replace("hexagon-", "dsp_")) for each in row.folders)
    ending = "_AltPrep" if row.id == "htp_aarch64" else ""
    return row._replace(id=row.id.replace("htp_", "dsp_"), folders=folders, ending=ending)


_READ = (
    "read through its C API by a host of ours, which registers what it names in the real runtimes; not loaded by SNPE"
)
UDO = {
    row.id: row
    for row in (
        Target("reg_x86", "reg", ("x86-64_linux_clang",), "x86-64 Linux", "x86", _READ, native=True),
        Target("reg_aarch64", "reg", ("aarch64-linux-gnu",), "aarch64 Linux", "aarch64", "built by zig; not run"),
        Target("reg_android", "reg", ("arm64-v8a",), "Android arm64-v8a", "android", _STAND_IN.format("`ndk-build`")),
        *(_udo(row) for row in ALL.values() if row.id != "htp_android" and row.backend != "converter"),
    )
}


def of_layout(layout: str) -> dict[str, Target]:
    """The targets of packages in this layout."""
    return UDO if layout == "snpe" else ALL


# --- names that stand for several ------------------------------------------------------------------------------

_DEVICE = "reg_device"  # the registration library of a device: of Android where the NDK is there, else of Linux
_HTP = ("htp_x86", "htp_aarch64", *(row.id for row in ALL.values() if row.backend == "htp" and row.arch))
_DSP = tuple(row.id for row in ALL.values() if row.backend in ("htp", "dsp") and row.arch)
_UDO_DSP = (_DEVICE, *(row.id for row in UDO.values() if row.arch))
_UDO_ANDROID = ("reg_android", "cpu_android", "gpu_android", *_UDO_DSP[1:])
GROUPS = {
    "qnn": {
        "cpu": ("cpu_x86", "cpu_android"),
        "gpu": ("gpu_android",),
        "htp": _HTP,
        "dsp": _DSP,
        "dsp_android": _DSP,
        "dsp_x86": ("htp_x86",),
        "dsp_aarch64": ("htp_aarch64",),
        "all": (
            *("cpu_x86", "cpu_android", "gpu_android", *_HTP, *(each for each in _DSP if each not in _HTP)),
            "converter_x86",
        ),
        "all_x86": ("cpu_x86", "gpu_x86", "htp_x86", "converter_x86"),
        "all_aarch64": ("cpu_aarch64", "gpu_aarch64", "htp_aarch64"),
        "all_android": ("cpu_android", "gpu_android", "htp_android"),
    },
    # The table of the UDO documentation; the library of a core brings its registration library.
    "snpe": {
        "all": ("reg_x86", "cpu_x86", *_UDO_ANDROID),
        "all_x86": ("reg_x86", "cpu_x86"),
        "all_aarch64": ("reg_aarch64", "cpu_aarch64", "gpu_aarch64", "dsp_aarch64"),
        "all_android": _UDO_ANDROID,
        "reg": ("reg_x86", "reg_android"),
        "cpu": ("reg_x86", "cpu_x86", "reg_android", "cpu_android"),
        "gpu": ("reg_android", "gpu_android"),
        "dsp": _UDO_DSP,
        "dsp_android": _UDO_DSP,
        "dsp_aarch64": (_DEVICE, "dsp_aarch64"),
        **{f"{core}_{platform}": (f"reg_{platform}", f"{core}_{platform}")
           for core, platform in (("cpu", "x86"), ("cpu", "aarch64"), ("cpu", "android"), ("gpu", "x86"),
                                  ("gpu", "aarch64"), ("gpu", "android"), ("dsp", "x86"))},
    },
}  # fmt: skip


def of_backend(backend: str, layout: str = "qnn") -> tuple[str, ...]:
    """The targets of a backend, in the order of the table."""
    return tuple(row.id for row in of_layout(layout).values() if row.backend == backend)


def expand(
    names: tuple[str, ...],
    offered: tuple[str, ...],
    *,
    layout: str = "qnn",
    ndk: bool = False,
    versions: tuple[str, ...] = (),
) -> tuple[Target, ...] | str:
    """The targets behind names (none: what runs here); the name itself where a package does not offer it."""
    table, groups = of_layout(layout), GROUPS[layout if layout in GROUPS else "qnn"]
    device = "reg_android" if ndk else "reg_aarch64"
    found: dict[str, Target] = {}
    for name in names or tuple(target for target in offered if target in table and table[target].native):
        meant = [device if each == _DEVICE else each for each in groups.get(name, (name,))]
        rows = {each: table[each] for each in meant if each in offered and each in table}
        if versions and name in ("dsp", "dsp_android"):  # as documented: those that the config names
            rows = {each: row for each, row in rows.items() if row.arch in ("", *versions)}
        if not rows:
            return name
        found.update(rows)
    return tuple(found.values())
