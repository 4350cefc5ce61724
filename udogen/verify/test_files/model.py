"""The declarations of a test file, before any config is read; every part has its location."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from udogen.findings import Location
from udogen.verify.test_files.values import Fill
from udogen.verify.tolerances import Tolerance

EVERY = ""  # the key for all tensors, in tables by tensor

Shape = tuple[int, ...]


@dataclass(frozen=True)
class GivenNumbers:
    """Explicit values of a tensor: a list in the file, or a .npy file."""

    numbers: object = None
    file: Path | None = None

    def __str__(self) -> str:
        return self.file.name if self.file else "given numbers"


@dataclass(frozen=True)
class Quantization:
    """The quantization of a tensor: scale and offset, or the range of real numbers that it covers."""

    scale: float | None = None
    offset: int = 0
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class CaseGroup:
    """One `[[op.case]]`: every combination of the listed values is a case."""

    name: str = ""
    shapes: tuple[Mapping[str, Shape], ...] = ()  # empty: default shapes, for the ranks of the config
    dtypes: tuple[Mapping[str, str], ...] = ()  # empty: every type of the first input
    values: tuple[Mapping[str, Fill | GivenNumbers], ...] = ({},)
    seeds: tuple[int, ...] = (0,)
    params: Mapping[str, object] = field(default_factory=dict)  # as written; the config decides if a list is one value
    quants: Mapping[str, Quantization] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)  # of repeated inputs
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)  # by data type, family, or EVERY
    backends: tuple[str, ...] = ()  # empty: all backends of the op
    expect: Literal["numbers", "refusal"] = "numbers"
    places: Mapping[str, Location] = field(default_factory=dict, compare=False)  # by key

    def where(self, key: str = "") -> Location:
        """The location of a key, or that of the case if it does not have the key."""
        return self.places.get(key) or self.places.get("") or Location("")


@dataclass(frozen=True)
class Builtin:
    """The vendor's equivalent op, for comparing times."""

    op: str
    package: str = "qti.aisw"
    params: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Subject:
    """What is tested: a config with kernels, from which packages are generated, or else existing packages."""

    config: Path | None = None
    kernels: Path | None = None
    htp_api: str = ""
    rules: Path | None = None  # shape rules
    converter: Path | None = None  # the converter op package that rules are compared with


@dataclass(frozen=True)
class OpTests:
    """One `[[op]]`."""

    op: str
    groups: tuple[CaseGroup, ...]
    subject: Subject
    folder: Path  # what its paths are relative to
    reference: str = ""  # `reference.py:softmax`, `onnx:Softmax`, `torch:nn.functional.softmax`; empty: it is only run
    loops: int = 0  # 0: as many as a measurement needs
    operations: float | None = None  # arithmetic operations for each element of the output
    builtin: Builtin | None = None
    location: Location = field(default=Location(""), compare=False)


@dataclass(frozen=True)
class NetworkTests:
    """One `[[network]]`: an ONNX model that is compared layer by layer."""

    name: str
    model: Path
    backends: tuple[str, ...] = ("cpu",)
    bits: tuple[str, ...] = ("float",)
    inputs: Mapping[str, Path] = field(default_factory=dict)
    tolerance: float | None = None
    until: str = ""
    location: Location = field(default=Location(""), compare=False)


@dataclass(frozen=True)
class TestFiles:
    """The contents of all test files."""

    __test__ = False  # pytest would collect it as a test class because of its name

    folder: Path
    ops: tuple[OpTests, ...]
    files: tuple[Path, ...] = ()
    networks: tuple[NetworkTests, ...] = ()
