"""Kernels written once in Python: the views in which a kernel's function takes its tensors, and autoschedulers.

Nothing here needs Halide; kernels and the worker that compiles them import this module.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Flat:
    """All elements in one row, regardless of the shape: `x[i]`.  This is the view without an annotation.

    `shape`: a name, a number or an expression for each axis, the first axis first (`Flat("n k/2")`); `...` is any
    number of axes.  `types`: the data types that the tensor may have (`Flat(types="INT_32")`).
    """

    shape: str = field(default="", repr=False)
    types: str = field(default="", repr=False)


@dataclass(frozen=True)
class Rows:
    """The elements along one axis: `x[k]` is the k-th element of the row that is being calculated.

    The axis is a number, or the name of a scalar parameter of the op; a negative one counts from the last.
    """

    axis: int | str = -1
    shape: str = field(default="", repr=False)
    types: str = field(default="", repr=False)


@dataclass(frozen=True)
class Whole:
    """An index for each axis, the last axis first, as in Halide: `x[c, w, h, n]` for `Whole("n h w c")`.

    The shape of a tensor of lower rank gets leading ones.  A number instead of a shape is the rank: `Whole(4)`.
    """

    rank: int = 4
    shape: str = field(default="", repr=False)
    types: str = field(default="", repr=False)

    def __init__(self, axes: int | str = 4, types: str = "") -> None:
        shape = axes if isinstance(axes, str) else ""
        values = {"rank": len(shape.split()) if isinstance(axes, str) else axes, "shape": shape, "types": types}
        for name, value in values.items():
            object.__setattr__(self, name, value)


View = Flat | Rows | Whole

AUTOSCHEDULERS = ("Adams2019", "Li2018", "Mullapudi2016")


class Autoschedule:
    """One of Halide's autoschedulers, instead of the usual schedule on processors: `schedule = Autoschedule(…)`.

    It needs a typical size of each tensor, as a shape, and of each scalar parameter that a size depends on.
    """

    def __init__(self, name: str, **sizes: float | tuple[int, ...]) -> None:
        if name not in AUTOSCHEDULERS:
            raise ValueError(f"{name!r} is not an autoscheduler: Halide has {', '.join(AUTOSCHEDULERS)}")
        self.name, self.line = name, sys._getframe(1).f_lineno
        self.sizes: Mapping[str, float | tuple[int, ...]] = sizes
