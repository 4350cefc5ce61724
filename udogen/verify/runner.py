"""Runs cases in a session and holds what comes out against what was expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from udogen.errors import UsageError
from udogen.runtime import OpSession, RuntimeInfo
from udogen.runtime.built import Built
from udogen.runtime.hexagon import HexagonSession
from udogen.runtime.request import Wishes, make_call
from udogen.verify.cases import Case

if TYPE_CHECKING:
    from udogen.runtime.calls import Array


@dataclass(frozen=True)
class Outcome:
    """What one case showed."""

    case: Case
    backend: str
    runtime: RuntimeInfo
    max_error: float
    execute: float  # seconds, the median
    data_type: str

    @property
    def passed(self) -> bool:
        """Within the tolerance of the case; a result that is no number is never."""
        return self.max_error <= self.case.tolerance


def run_cases(
    built: Built,
    cases: Sequence[Case],
    *,
    backend: str = "cpu",
    runtime: Path | None = None,
    loops: int = 20,
    timeout: float = 60.0,
    force: bool = False,
) -> list[Outcome]:
    """Every case, in one process; on `hexagon` and `dsp` each in its own, on the instruction set."""
    outcomes = []
    config_of = "htp" if backend == "hexagon" else backend
    op_of = cache(lambda name: built.op(name, config_of))  # the config is read once for each op, not for each case
    with _session(built, backend, runtime, timeout, force) as session:
        for case in cases:
            wishes = Wishes(
                inputs=case.inputs,
                params=case.params,
                quants=case.quants,
                shapes={name: tuple(array.shape) for name, array in case.expected.items()},
                loops=loops,
            )
            call = make_call(op_of(case.op), built, case.op, wishes)
            result = session.run(call)
            worst = max(max_error(result.outputs[name], array) for name, array in case.expected.items())
            kind = " ".join(dict.fromkeys(tensor.dtype for tensor in call.outputs))
            outcomes.append(Outcome(case, backend, result.runtime, worst, result.times.execute, kind))
    return outcomes


def _session(
    built: Built, backend: str, runtime: Path | None, timeout: float, force: bool
) -> OpSession | HexagonSession:
    if backend not in ("hexagon", "dsp"):
        return OpSession(built.library, built.provider, backend=backend, runtime=runtime, timeout=timeout, force=force)
    if built.folder is None:
        raise UsageError("only a package that udogen generated can be compiled for Hexagon", hint="give its folder")
    return HexagonSession(built.folder, timeout=timeout)


def max_error(found: Array, expected: Array) -> float:
    """The largest absolute difference; infinite where the shapes differ or one is no number and the other is."""
    import numpy as np

    if found.shape != expected.shape:
        return float("inf")
    if found.size == 0:
        return 0.0
    a, b = found.astype(np.float64), expected.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):  # infinity minus infinity, which `same` has settled
        difference = np.where(same, 0.0, np.abs(a - b))
    return float(np.where(np.isnan(difference), np.inf, difference).max())
