"""What is to be checked: packages with their configs and kernels, and cases with the numbers that must come out."""

from __future__ import annotations

import runpy
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from udogen.errors import UsageError

if TYPE_CHECKING:
    from udogen.runtime.calls import Array


@dataclass(frozen=True)
class Case:
    """One run of one op: what goes in, and what a reference says must come out.

    Fixed-point tensors are given and expected as their stored integers; `tolerance` is in units of the output:
    the largest absolute difference that is right (1 is one quantization step).
    """

    name: str
    op: str
    inputs: Mapping[str, Array]
    expected: Mapping[str, Array]
    params: Mapping[str, object] = field(default_factory=dict)
    quants: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    tolerance: float = 1e-6
    backend: str = "cpu"


@dataclass(frozen=True)
class Example:
    """A config with finished kernels, and its cases."""

    config: Path
    kernels: Path
    cases: tuple[Case, ...]


def load_examples(folder: Path) -> list[Example]:
    """The examples of `<folder>/reference.py`: what its function `examples()` returns."""
    script = folder / "reference.py"
    if not script.is_file():
        raise UsageError(f"there is no reference.py in {folder}", hint="it must define examples()")
    made = runpy.run_path(str(script)).get("examples")
    if not callable(made):
        raise UsageError(f"{script} defines no function examples()", hint="it must return a list of Example")
    return list(made())
