"""CMakeLists.txt and CMakePresets.json for packages: builds without make, mainly on Windows.

They follow Qualcomm's page "Compiling a UDO package for Windows": CMake 3.21, MSVC v143 for x64 and ARM64, the CPU
library and the registration library; libraries for the DSP are built on Linux, by make.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath
from typing import NamedTuple

from udogen import backends
from udogen.backends import targets
from udogen.backends.plan import Part, Plan, PlannedFile

LISTS = "CMakeLists.txt"
_PRESETS = "CMakePresets.json"
_EXPORTS = ".sdk/reg/exports.def"
_HEADERS = ("include/QNN/QnnTypes.h", ".sdk/include/QNN/QnnTypes.h")
# What CMake builds; make builds the rest.
_BUILDS = [kind.id for kind in backends.KINDS.values() if kind.cmake]


def has(plan: Plan) -> bool:
    """Whether CMake can build a part of a plan."""
    return any(part.backend in _BUILDS for part in plan.parts)


def add(plan: Plan, label: str) -> Plan:
    """The plan, with CMake's files if it can build a part of it."""
    if not has(plan):
        return plan
    paths = [file.path for file in plan.files]
    parts = [_view(part, plan, paths) for part in plan.parts if part.backend in _BUILDS]
    data = {
        "config": label,
        "package": plan,
        "parts": parts,
        "cpu": next((part.name for part in parts if not part.registers), ""),
        "reg": next((part.name for part in parts if part.registers), ""),
        "linux": targets.of_layout(plan.layout)["cpu_x86"].folder,
        "headers": _parent(_HEADERS, paths),
    }
    files = (
        *plan.files,
        PlannedFile(LISTS, template=f"cmake/{LISTS}.mako", data=data),
        PlannedFile(_PRESETS, copy=f"cmake/{_PRESETS}"),
        *([PlannedFile(_EXPORTS, copy="cmake/exports.def")] if data["reg"] else []),
    )
    return replace(plan, files=tuple(sorted(files, key=lambda file: file.path)))


class _PartView(NamedTuple):
    backend: str
    registers: bool
    name: str
    sources: tuple[str, ...]
    includes: list[str]


def _view(part: Part, plan: Plan, paths: list[str]) -> _PartView:
    return _PartView(
        backend=part.backend,
        registers=not backends.KINDS[part.backend].runs_ops,
        name=part.library.removeprefix("lib").removesuffix(".so"),
        sources=part.sources,
        includes=_includes(part, plan, paths),
    )


def _includes(part: Part, plan: Plan, paths: list[str]) -> list[str]:
    """The include folders, as in the Makefiles."""
    if not backends.KINDS[part.backend].runs_ops:
        return ["include", "include/utils"]
    roots = dict.fromkeys([f".sdk/{part.backend}/", *(path.rpartition("src/")[0] for path in part.sources)])
    own = [
        f"{root}{folder}"
        for root in roots
        for folder in ("include", "src/utils")
        if f"{root}{folder}" != ".sdk/include"
    ]
    return [folder for folder in own if any(path.startswith(f"{folder}/") for path in paths)]


def _parent(names: tuple[str, ...], paths: list[str]) -> str:
    return next((str(PurePosixPath(name).parent) for name in names if name in paths), "")
