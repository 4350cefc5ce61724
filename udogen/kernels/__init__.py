"""Kernels written once in Python: how a kernel's function says in what shape it takes its tensors.

Nothing here needs Halide: kernels import it, and the worker that compiles them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Flat:
    """All elements in one row, whatever the shape: `x[i]`.  A tensor without an annotation is taken so."""


@dataclass(frozen=True)
class Rows:
    """The elements along one axis: `x[k]` is the k-th of whichever row is calculated.

    The axis is a number, or the name of a scalar parameter of the op; a negative one counts from the last.
    """

    axis: int | str = -1


@dataclass(frozen=True)
class Whole:
    """Every axis has an index, the last one first, as Halide counts: `x[c, w, h, n]` of a tensor of NHWC.

    A tensor of a lower rank has ones in front.
    """

    rank: int = 4


View = Flat | Rows | Whole
