"""Cases: the inputs of an op, and the outputs that a reference expects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from udogen.errors import UdogenError
from udogen.runtime.op.request import CallOptions, make_call
from udogen.verify.tolerances import Tolerance

if TYPE_CHECKING:
    from udogen.opdef.model import Op
    from udogen.runtime.built import Built
    from udogen.runtime.op.calls import Array, OpCall

Arrays = Mapping[str, "Array"]
Quants = Mapping[str, tuple[float, int]]  # scale, offset: real = (stored + offset) * scale
# (inputs as stored, params, quants) -> outputs as real numbers.
ReferenceCall = Callable[[Arrays, Mapping[str, object], Quants], Arrays]


@dataclass(frozen=True)
class CaseError:
    """Why a case has no numbers; the fields of a `UdogenError`."""

    kind: str  # `op-crashed`, `op-refused`, `reference` …
    message: str
    hint: str = ""
    details: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: UdogenError) -> CaseError:
        """The error as data."""
        return cls(error.kind, error.message, error.hint, error.details)


@dataclass(frozen=True)
class Origin:
    """How a case was made: to make similar cases (shrinking) and to call the reference again (diagnosis)."""

    # The same case with inputs of other shapes; None if the reference does not accept them.
    reshaped: Callable[[Mapping[str, tuple[int, ...]]], Case | None]
    reference: ReferenceCall
    baseline: Callable[[], object]  # calls only the reference, for timing
    location: str = ""  # file:line of the test file


@dataclass(frozen=True)
class Case:
    """One run of one op: its inputs, and the outputs that a reference expects.

    Fixed-point tensors are given and expected as their stored integers.  A numeric `tolerance` is the largest allowed
    absolute difference, in units of the output (1 is one quantization step).

    `Case("ones", "LeakyRelu", {"x": x}, {"y": y}, {"alpha": 0.1}, tolerance=1e-6)`
    """

    name: str
    op: str
    inputs: Arrays
    expected: Arrays  # empty without a reference: the case is only run
    params: Mapping[str, object] = field(default_factory=dict)
    quants: Quants = field(default_factory=dict)
    tolerance: float | Tolerance | Mapping[str, Tolerance] = 1e-6  # a mapping: by output
    backend: str = "cpu"  # of the config
    dtypes: Mapping[str, str] = field(default_factory=dict)  # of tensors that allow several
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # of outputs that have no expected values
    places: tuple[str, ...] = ()  # where it runs; empty: everywhere that packages of its backend run
    refusal: bool = False  # the op must refuse it
    error: CaseError | None = None  # why it could not be made
    origin: Origin | None = field(default=None, compare=False, repr=False)
    operations: float | None = None
    loops: int = 0
    builtin: Any = field(default=None, compare=False)
    before: tuple[Case, ...] = ()  # earlier ops of a chain: the first output of each is the first input of the next

    def runs_on(self, place: str) -> bool:
        """Whether the case is for this place; packages of its backend must run there."""
        return not self.places or place in self.places

    def tolerance_of(self, output: str) -> Tolerance:
        """The tolerance of one output."""
        if isinstance(self.tolerance, Tolerance):
            return self.tolerance
        return self.tolerance[output] if isinstance(self.tolerance, Mapping) else Tolerance(float(self.tolerance))

    @property
    def output_shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Shapes of the outputs, as far as known."""
        return {**self.shapes, **{name: tuple(array.shape) for name, array in self.expected.items()}}

    @property
    def output_types(self) -> str:
        """Data types of the outputs, as far as known before a call."""
        names = [self.dtypes[name] for name in self.expected if name in self.dtypes] or list(self.dtypes.values())[-1:]
        return " ".join(dict.fromkeys(names))

    def call(self, op: Op | None, built: Built, *, loops: int = 1, by_name: bool = False) -> OpCall:
        """The call of its op in this package."""
        options = CallOptions(
            inputs=self.inputs,
            params=self.params,
            quants=self.quants,
            dtypes=self.dtypes,
            shapes=self.output_shapes,
            loops=loops,
            by_name=by_name,
        )
        return make_call(op, built, self.op, options)


@dataclass(frozen=True)
class Example:
    """A config with finished kernels, and its cases: `print(example.config, len(example.cases))`."""

    config: Path
    kernels: Path
    cases: tuple[Case, ...]
