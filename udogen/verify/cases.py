"""What is to be checked: cases with the numbers that must come out, and packages with their configs and kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from udogen.errors import UsageError
from udogen.verify.tolerances import Tolerance

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array
    from udogen.verify.results import Trouble

Arrays = Mapping[str, "Array"]


@dataclass(frozen=True)
class Origin:
    """How a case came about, so that others like it can be made: for shrinking, and for asking the reference."""

    # The same case with inputs of other shapes; None where there is none such.
    reshaped: Callable[[Mapping[str, tuple[int, ...]]], Case | None]
    # Stored inputs, parameters and quantization -> what the reference would have said, in real numbers.
    reference: Callable[[Arrays, Mapping[str, object], Mapping[str, tuple[float, int]]], Arrays]
    baseline: Callable[[], object]  # the reference alone, for its time
    # The same before it is stored, in real numbers: for asking what another way of storing would give.
    answer: Callable[[Arrays, Mapping[str, object], Mapping[str, tuple[float, int]]], Arrays] | None = None
    location: str = ""  # file:line of the test file


@dataclass(frozen=True)
class Case:
    """One run of one op: what goes in, and what a reference says must come out.

    Fixed-point tensors are given and expected as their stored integers; a `tolerance` that is a number is in units of
    the output: the largest absolute difference that is right (1 is one quantization step).
    """

    name: str
    op: str
    inputs: Arrays
    expected: Arrays  # none where there is no reference: then it is only run
    params: Mapping[str, object] = field(default_factory=dict)
    quants: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    tolerance: float | Tolerance | Mapping[str, Tolerance] = 1e-6  # a mapping: by output
    backend: str = "cpu"  # of the config
    dtypes: Mapping[str, str] = field(default_factory=dict)  # of tensors that could have several
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # of outputs, where nothing is expected
    places: tuple[str, ...] = ()  # where it is run; none: everywhere that its backend's packages run
    refusal: bool = False  # the op must refuse it
    trouble: Trouble | None = None  # why it could not be made
    origin: Origin | None = field(default=None, compare=False, repr=False)
    operations: float | None = None
    loops: int = 0
    builtin: Any = field(default=None, compare=False)
    before: tuple[Case, ...] = ()  # of a chain: the first output of each is the first input of the next

    def runs_on(self, place: str) -> bool:
        """Whether it is for this place; its backend's packages must run there."""
        return not self.places or place in self.places

    def tolerance_of(self, output: str) -> Tolerance:
        """What is allowed at one output."""
        said = self.tolerance
        if isinstance(said, Tolerance):
            return said
        return said[output] if isinstance(said, Mapping) else Tolerance(float(said))

    @property
    def output_shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Shapes of outputs, as far as they are known."""
        return {**self.shapes, **{name: tuple(array.shape) for name, array in self.expected.items()}}


@dataclass(frozen=True)
class Example:
    """A config with finished kernels, and its cases."""

    config: Path
    kernels: Path
    cases: tuple[Case, ...]


def load_examples(folder: Path) -> list[Example]:
    """The examples of a folder: those of its test file, or what `examples()` of its reference.py returns."""
    from udogen.python_files import load_module
    from udogen.verify.suite import expand, find

    if find.test_files(folder):
        return expand.examples(find.load_suite(folder))
    script = folder / "reference.py"
    if not script.is_file():
        raise UsageError(f"there is no reference.py in {folder}", hint="it must define examples()")
    made = getattr(load_module(script), "examples", None)
    if not callable(made):
        raise UsageError(f"{script} defines no function examples()", hint="it must return a list of Example")
    return list(made())
