"""The backends, one row each, and how configs call them.

A config says CPU, GPU, HTP, or DSP with an architecture (`DSP_V68` in XML, `dsp_arch_types` in JSON).  DSP of
V68 and later is what QNN calls HTP; before that, and without an architecture, it is the DSP backend.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from udogen.backends import cpu, dsp, gpu, htp
from udogen.backends.folder import Contents, Placement
from udogen.backends.plan import Source
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Op, OpPackage, Supplement, Tensor

FIRST_HTP = 68
_DSP = re.compile(r"DSP_?V(\d\d)\Z")


_HTP_DELIVERS = (
    "FLOAT_32", "FLOAT_16", "UFIXED_POINT_8", "SFIXED_POINT_8", "UFIXED_POINT_16", "SFIXED_POINT_16",
    "INT_32", "UINT_32", "INT_16", "UINT_16", "INT_8", "UINT_8", "BOOL_8",
)  # fmt: skip
_CPU_DELIVERS = ("FLOAT_32", "UFIXED_POINT_8", "INT_32", "UINT_32", "INT_8", "UINT_8", "BOOL_8")
# "Compiling a UDO package": the DSP hands on bytes, or floats that it has made of them.
_DSP_DELIVERS = ("FLOAT_32", "UFIXED_POINT_8", "UINT_8")
# Parameters are copied as they are; UDO has no values of 64 bits.
_DSP_PARAMS = (
    "FLOAT_32", "FLOAT_16", "INT_32", "UINT_32", "INT_16", "UINT_16", "INT_8", "UINT_8", "BOOL_8", "SFIXED_POINT_8",
    "UFIXED_POINT_8", "SFIXED_POINT_16", "UFIXED_POINT_16", "SFIXED_POINT_32", "UFIXED_POINT_32",
)  # fmt: skip


class Backend(NamedTuple):
    """One backend of QNN."""

    id: str  # as on our command line
    title: str
    suffix: str  # in file and folder names
    can_repeat: bool  # inputs and outputs of unknown number
    can_omit: bool  # inputs and outputs that a client leaves out
    has_texts: bool  # parameters that are texts
    names_params: bool  # an op finds its parameters by name; otherwise by their place
    # Types of tensors that reach a custom op (measured); none: the backend itself refuses what it does not have.
    delivers: tuple[str, ...] = ()
    params: tuple[str, ...] = ()  # the same of tensor parameters, where it is other types
    one_type: bool = False  # an op says once, for all graphs, of which type each input and output is


ALL = {
    row.id: row
    for row in (
        # libQnnCpu 2.47 takes other types without a word, and hands the op unset pointers.
        Backend("cpu", "CPU", "Cpu", True, True, True, True, _CPU_DELIVERS),
        Backend("gpu", "GPU", "Gpu", True, True, True, True),
        # libQnnHtp 2.47 refuses other types and texts, or crashes; it hands a kernel its parameters without names.
        Backend("htp", "HTP (DSP V68 and later)", "Htp", False, False, False, False, _HTP_DELIVERS),
        # An input that is left out has its place (UDO_LAYOUT_NULL).
        Backend("dsp", "DSP V65/V66", "Dsp", False, True, True, True, _DSP_DELIVERS, _DSP_PARAMS, one_type=True),
    )
}

GENERATORS: dict[str, Callable[[OpPackage, Source, Placement], Contents]] = {
    "cpu": cpu.contents,
    "gpu": gpu.contents,
    "htp": htp.contents,
    "dsp": dsp.contents,
}

# The layout of a package whose config is written in this language, unless the user says otherwise.
USUAL_LAYOUT = {"json": "snpe", "xml": "qnn"}

# Names that configs use; those we cannot generate for are known, so that they are no mistake.
KNOWN_NAMES = ("CPU", "GPU", "DSP", "HTP", "AIC", "HTA", "LPAI")
_OLD_NAMES = {"HTP_FP16": "HTP"}  # SDKs of 2021 to 2023 spoke of the float side of HTP as a backend of its own


def canonical(name: str) -> str:
    """A backend's name as it is kept in the model."""
    plain = name.strip().upper()
    return _OLD_NAMES.get(plain, plain)


def is_known(name: str) -> bool:
    """True for the name of a backend, whether we can generate for it or not."""
    return name in KNOWN_NAMES or bool(_DSP.match(name))


def split_dsp(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """`CPU, DSP_V68` -> (`CPU, DSP`), (`v68`): names and architectures apart, in order, each once."""
    backends: dict[str, None] = {}
    archs: dict[str, None] = {}
    for name in names:
        match = _DSP.match(canonical(name))
        if match:
            archs[f"v{match[1]}"] = None
        backends["DSP" if match else canonical(name)] = None
    return tuple(backends), tuple(archs)


def of_op(op: Op, package: OpPackage) -> tuple[str, ...]:
    """The ids of the backends that the config says this op supports."""
    named, archs = of_supplements(op, package)
    names = set(named)
    numbers = [int(arch[1:]) for arch in archs]
    found = {name.lower() for name in names & {"CPU", "GPU", "HTP"}}
    if "DSP" in names:
        if any(number >= FIRST_HTP for number in numbers):
            found.add("htp")
        if not numbers or any(number < FIRST_HTP for number in numbers):
            found.add("dsp")
    return tuple(backend for backend in ALL if backend in found)


def delivers(backend: str, datatype: DataType, tensor: Tensor) -> bool:
    """Whether a runtime hands a tensor of this type to an op; parameters by value are never refused."""
    row = ALL[backend]
    named = row.params or row.delivers if tensor.role == "param" else row.delivers
    return tensor.is_scalar or datatype.kind == "special" or not named or datatype.name in named


def supplements_for(backend: str, package: OpPackage) -> list[Supplement]:
    """The supplements that speak of this backend, the most general first."""
    ranked: list[tuple[int, Supplement]] = []
    for supplement in package.supplements:
        match = _DSP.match(supplement.backend)
        if supplement.backend == backend.upper():
            ranked.append((1, supplement))
        elif match and (int(match[1]) >= FIRST_HTP) == (backend == "htp") and backend in ("htp", "dsp"):
            ranked.append((2, supplement))
        elif supplement.backend == "DSP" and backend == "htp":
            ranked.append((0, supplement))
    return [supplement for _, supplement in sorted(ranked, key=lambda pair: pair[0])]


def of_supplements(op: Op, package: OpPackage) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Backends and DSP architectures of an op: its own, then those whose supplements list it as supported."""
    names, archs = split_dsp(each.backend for each in package.supplements if op.name in each.supported)
    return tuple(dict.fromkeys((*op.backends, *names))), tuple(dict.fromkeys((*op.dsp_archs, *archs)))
