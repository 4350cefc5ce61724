"""The backends (one object per file), and their names in configs.

A config names CPU, GPU, HTP, or DSP with an architecture (`DSP_V68` in XML, `dsp_arch_types` in JSON).  DSP V68 and
later is HTP in QNN; earlier versions, and DSP without an architecture, are the DSP backend.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from udogen.backends import cpu, dsp, gpu, htp, libraries
from udogen.backends.backend import Backend, HostRuntime, Kind, Place
from udogen.plugins import Registry, installed, load

if TYPE_CHECKING:
    from udogen.opdef.datatypes import DataType
    from udogen.opdef.model import Op, OpPackage, Supplement, Tensor

_DSP = re.compile(r"DSP_?V(\d\d)\Z")

KINDS: dict[str, Kind] = {}  # backends, registration libraries, converter op packages
ALL: dict[str, Backend] = {}  # the backends
RUNTIMES: dict[str, HostRuntime] = {}  # of the backends that have one
_PLACES: dict[str, Place] = {}
PLACES = Registry("places", _PLACES)  # where ops can run, by their names in test files and `--backend`
_TESTED = ("auto", "instructions", "emulator")  # kinds of places, in the order of tests


def register(kind: Kind) -> None:
    """Add an object; required before modules that list backends and targets are imported."""
    KINDS[kind.id] = kind
    if isinstance(kind, Backend):
        ALL[kind.id] = kind
        places = sorted((*_PLACES.values(), *kind.places), key=lambda place: _TESTED.index(place.kind))
        _PLACES.clear()
        _PLACES.update({place.id: place for place in places})
        if kind.runtime is not None:
            RUNTIMES[kind.id] = kind.runtime


# The order in which backends are listed, generated and built.
for _kind in (cpu.BACKEND, gpu.BACKEND, htp.BACKEND, dsp.BACKEND, libraries.REGISTRATION, libraries.CONVERTER):
    register(_kind)

# Language of a config -> the default layout of its packages.
USUAL_LAYOUT = {"json": "snpe", "xml": "qnn"}

FOREIGN = ("AIC", "HTA", "LPAI")  # backends in configs that udogen does not generate for
_OLD_NAMES = {"HTP_FP16": "HTP"}  # a separate backend in SDKs of 2021 to 2023


def by_number(number: int) -> Backend | None:
    """The backend with this number in the QNN API."""
    return next((row for row in ALL.values() if row.number == number), None)


def canonical(name: str) -> str:
    """A backend's name in the model."""
    plain = name.strip().upper()
    return _OLD_NAMES.get(plain, plain)


def known_names() -> tuple[str, ...]:
    """The names of backends in configs, including those that udogen does not generate for."""
    return (*(name for row in ALL.values() for name in row.names), *FOREIGN)


def is_known(name: str) -> bool:
    """True for the name of a backend, even if udogen does not generate for it."""
    return name in known_names() or bool(_DSP.match(name))


def split_dsp(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """`CPU, DSP_V68` -> (`CPU, DSP`), (`v68`): names and architectures, in order, without duplicates."""
    backends: dict[str, None] = {}
    archs: dict[str, None] = {}
    for name in names:
        match = _DSP.match(canonical(name))
        if match:
            archs[f"v{match[1]}"] = None
        backends["DSP" if match else canonical(name)] = None
    return tuple(backends), tuple(archs)


def of_op(op: Op, package: OpPackage) -> tuple[str, ...]:
    """The ids of the backends that this op supports."""
    names, archs = of_supplements(op, package)
    versions = [int(arch[1:]) for arch in archs] if "DSP" in names else []

    def is_named(backend: Backend) -> bool:
        if any(version in backend.hexagon for version in versions):
            return True
        return any(name in backend.names and not (name == "DSP" and versions) for name in names)

    return tuple(row.id for row in ALL.values() if is_named(row))


def delivers(backend: str, datatype: DataType, tensor: Tensor) -> bool:
    """Whether a runtime passes a tensor of this type to an op; true for parameters by value."""
    row = ALL[backend]
    named = row.params or row.delivers if tensor.role == "param" else row.delivers
    return tensor.is_scalar or datatype.kind == "special" or not named or datatype.name in named


def supplements_for(backend: str, package: OpPackage) -> list[Supplement]:
    """The supplements for this backend, the most general first."""
    row = ALL[backend]
    ranked: list[tuple[int, Supplement]] = []
    for supplement in package.supplements:
        match = _DSP.match(supplement.backend)
        if supplement.backend in row.names:
            ranked.append((1, supplement))
        elif match and int(match[1]) in row.hexagon:
            ranked.append((2, supplement))
        elif supplement.backend == "DSP" and row.hexagon:
            ranked.append((0, supplement))
    return [supplement for _, supplement in sorted(ranked, key=lambda pair: pair[0])]


def of_supplements(op: Op, package: OpPackage) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Backends and DSP architectures of an op: its own, then those whose supplements list it."""
    names, archs = split_dsp(
        supplement.backend for supplement in package.supplements if op.name in supplement.supported
    )
    return tuple(dict.fromkeys((*op.backends, *names))), tuple(dict.fromkeys((*op.dsp_archs, *archs)))


for _name in installed("backends"):  # at the end: they import this module
    register(load("backends", _name))
