"""The make targets of all kinds of libraries, by layout, and groups of them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from udogen import backends
from udogen.backends import architectures
from udogen.backends.backend import Kind, Target

_VERSIONS = tuple(architectures.ALL)
_OTHERS = [kind for kind in backends.KINDS.values() if not kind.runs_ops]


def _table(*rows: Iterable[Target]) -> dict[str, Target]:
    return {row.id: row for row in chain(*rows)}


def _by_version(rows: Iterable[Target]) -> list[Target]:
    """Targets for Arm and PCs, then those for Hexagon by version."""
    return sorted(rows, key=lambda row: _VERSIONS.index(row.arch) + 1 if row.arch else 0)


ALL = _table(
    _by_version(row for backend in backends.ALL.values() for row in backend.targets),
    *(kind.targets for kind in _OTHERS),
)
# Packages of the UDO documentation: the registration library comes first.
UDO = _table(
    *(kind.udo_targets for kind in _OTHERS),
    _by_version(row for backend in backends.ALL.values() for row in backend.udo_targets),
)


def of_layout(layout: str) -> dict[str, Target]:
    """The targets of packages in this layout."""
    return UDO if layout == "snpe" else ALL


# --- groups ----------------------------------------------------------------------------------------------------


def _usual(kind: Kind) -> tuple[str, ...]:
    return tuple(row.id for row in kind.targets if row.usual)


def _platform(name: str) -> tuple[str, ...]:
    return tuple(row.id for row in ALL.values() if row.id == f"{row.backend}_{name}")


_DEVICE = "reg_device"  # the registration library of a device: for Android with the NDK, else for Linux
_DSP = tuple(row.id for row in ALL.values() if row.arch)
_UDO_DSP = (_DEVICE, *(row.id for row in UDO.values() if row.arch))
_UDO_ANDROID = ("reg_android", "cpu_android", "gpu_android", *_UDO_DSP[1:])
GROUPS = {
    "qnn": {
        **{backend.id: _usual(backend) for backend in backends.ALL.values()},
        # In configs and Qualcomm's Makefiles, DSP includes HTP.
        "dsp": _DSP,
        "dsp_android": _DSP,
        "dsp_x86": ("htp_x86",),
        "dsp_aarch64": ("htp_aarch64",),
        "all": tuple(name for kind in backends.KINDS.values() for name in _usual(kind)),
        "all_x86": _platform("x86"),
        "all_aarch64": _platform("aarch64"),
        "all_android": _platform("android"),
    },
    # The table of the UDO documentation; each core includes its registration library.
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


def expand(
    names: tuple[str, ...],
    offered: tuple[str, ...],
    *,
    layout: str = "qnn",
    ndk: bool = False,
    versions: tuple[str, ...] = (),
) -> tuple[Target, ...] | str:
    """The targets of names and groups (none: those that run here), or the first name that a package does not offer."""
    table, groups = of_layout(layout), GROUPS[layout if layout in GROUPS else "qnn"]
    device = "reg_android" if ndk else "reg_aarch64"
    known = [target for target in offered if target in table]
    by_id: dict[str, Target] = {}
    for name in names or [target for target in known if table[target].native]:
        meant = [device if member == _DEVICE else member for member in groups.get(name, (name,))]
        rows = [table[member] for member in meant if member in known]
        if name in groups:
            rows = _of_group(rows, versions, only_named=groups[name] in (_DSP, _UDO_DSP))
        if not rows:
            return name
        by_id.update({row.id: row for row in rows})
    return tuple(by_id.values())


def _of_group(rows: Iterable[Target], versions: tuple[str, ...], *, only_named: bool) -> list[Target]:
    """As documented: Hexagon versions of the config, or all that can be built without an SDK."""
    if only_named and versions:
        return [row for row in rows if not row.arch or row.arch in versions]
    return [row for row in rows if not row.arch or row.usual or row.arch in versions]
