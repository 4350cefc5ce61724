"""What a test file says, before any config is read: frozen, every part knows where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from udogen.opdef.problems import Location
from udogen.verify.tolerances import Tolerance
from udogen.verify.values import Values

EVERY = ""  # the key of what is said of all tensors, where a table names single ones

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Given:
    """The numbers of a tensor themselves: a list of the file, or a .npy file."""

    numbers: object = None
    file: Path | None = None

    def __str__(self) -> str:
        return self.file.name if self.file else "given numbers"


@dataclass(frozen=True)
class QuantWish:
    """How a tensor is quantized: by scale and offset, or by the real numbers that it shall cover."""

    scale: float | None = None
    offset: int = 0
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Group:
    """One `[[op.case]]`: every combination of what it lists is a case."""

    name: str = ""
    shapes: tuple[Mapping[str, Shape], ...] = ()  # none: shapes of our choice, for the ranks of the config
    dtypes: tuple[Mapping[str, str], ...] = ()  # none: every type of the first input
    values: tuple[Mapping[str, Values | Given], ...] = ({},)
    seeds: tuple[int, ...] = (0,)
    params: Mapping[str, object] = field(
        default_factory=dict
    )  # as written: whether a list is one value says the config
    quants: Mapping[str, QuantWish] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)  # of repeated inputs
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)  # by data type, family, or EVERY
    backends: tuple[str, ...] = ()  # none: all that the op is for
    expect: Literal["numbers", "refusal"] = "numbers"
    places: Mapping[str, Location] = field(default_factory=dict, compare=False)  # key -> where it stands

    def where(self, key: str = "") -> Location:
        """Where a key stands; the case itself, where it says nothing of it."""
        return self.places.get(key) or self.places.get("") or Location("")


@dataclass(frozen=True)
class Builtin:
    """The vendor's own op that does the same, to compare times with."""

    op: str
    package: str = "qti.aisw"
    params: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Subject:
    """What is tested: a config with kernels, of which packages are made; without a config, packages that are there."""

    config: Path | None = None
    kernels: Path | None = None
    htp_api: str = ""
    rules: Path | None = None  # shape rules
    converter: Path | None = None  # the converter op package that they are compared with


@dataclass(frozen=True)
class OpTests:
    """One `[[op]]`."""

    op: str
    groups: tuple[Group, ...]
    subject: Subject
    folder: Path  # what its paths are relative to
    reference: str = ""  # `reference.py:softmax`, `onnx:Softmax`, `torch:nn.functional.softmax`; none: it is only run
    loops: int = 0  # 0: as many as measuring takes
    operations: float | None = None  # arithmetic operations for each number that comes out
    builtin: Builtin | None = None
    location: Location = field(default=Location(""), compare=False)


@dataclass(frozen=True)
class Suite:
    """Everything that is to be tested."""

    folder: Path
    ops: tuple[OpTests, ...]
    files: tuple[Path, ...] = ()
