"""Why a case fails: its causes, and the smallest shapes that still fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from udogen.backends.backend import Place
from udogen.errors import UdogenError
from udogen.findings import Finding
from udogen.opdef.model import Op
from udogen.runtime.built import Built
from udogen.verify.cases import Case
from udogen.verify.diagnosis.causes import diagnose
from udogen.verify.diagnosis.wrong_output import FailedCase, OpRerun
from udogen.verify.places import Session
from udogen.verify.results import FEW_ELEMENTS, Outcome

_MOST_EXPLAINED = 3  # cases of one op and data type on one backend: the others fail for the same reason
_MOST_SHRUNK = 1
_RUNS = 60
_RUNS_OF_PROGRAMS = 20  # if each run is a process under QEMU
_RUNS_ON_DEVICES = 8  # on a device, where each run takes seconds
_CRASHED = "op-crashed"


class Explainer:
    """Explains outcomes as they arrive; only the first ones of each kind, because it takes time."""

    def __init__(self, run: Callable[[Case], Outcome], session: Session, place: Place, built: Built) -> None:
        self._run, self._session, self._place, self._built = run, session, place, built
        self._explained: Counter[tuple[str, str, str, bool]] = Counter()
        self._shrunk: Counter[tuple[str, str, str]] = Counter()

    def __call__(self, outcome: Outcome, op: Op | None) -> Outcome:
        """The outcome with its findings and the smallest case that fails in the same way."""
        key = (outcome.case.op, outcome.dtype, outcome.status)
        is_small = max((tensor.found.size for tensor in outcome.tensors), default=0) < FEW_ELEMENTS
        tried = (*key, is_small)
        if outcome.status == "failed" and outcome.tensors and self._explained[tried] < _MOST_EXPLAINED:
            self._explained[tried] += 1
            outcome = replace(outcome, findings=(*outcome.findings, *self._findings(outcome, op)))
        crashed = outcome.error is not None and outcome.error.kind == _CRASHED
        if (crashed or outcome.status == "failed") and self._shrunk[key] < _MOST_SHRUNK:
            self._shrunk[key] += 1
            outcome = replace(outcome, smallest=self._smallest(outcome))
        return outcome

    def _findings(self, outcome: Outcome, op: Op | None) -> tuple[Finding, ...]:
        failed = FailedCase(
            outcome.case,
            {tensor.name: tensor.found for tensor in outcome.tensors},
            defaults={param.name: param.default for param in op.params if param.default is not None} if op else {},
            rerun=OpRerun(self._session, self._built, op, outcome.case),
        )
        try:
            return diagnose(failed)
        except UdogenError:  # running the op again may end the process
            return ()

    def _smallest(self, outcome: Outcome) -> Case | None:
        origin = outcome.case.origin
        if origin is None:
            return None
        cases: dict[tuple[tuple[str, tuple[int, ...]], ...], Case] = {}

        def fails(shapes: Mapping[str, tuple[int, ...]]) -> bool:
            case = origin.reshaped(shapes)
            if case is None:
                return False
            cases[tuple(shapes.items())] = case
            now = self._run(case)
            if outcome.error is not None:
                return now.error is not None and now.error.kind == outcome.error.kind
            return now.status == "failed"

        given = {name: tuple(array.shape) for name, array in outcome.case.inputs.items()}
        runs = _RUNS_ON_DEVICES if self._place.device else _RUNS_OF_PROGRAMS if self._place.instructions else _RUNS
        best = shrink(given, fails, runs=runs)
        return None if best == given else cases.get(tuple(best.items()))


# --- the smallest shapes ----------------------------------------------------------------------------------------------


Shapes = Mapping[str, tuple[int, ...]]

_Axis = tuple[str, int]  # (tensor, axis)


def shrink(shapes: Shapes, fails: Callable[[Shapes], bool], *, runs: int = 60) -> dict[str, tuple[int, ...]]:
    """The smallest shapes for which `fails` still holds; the given ones if none is smaller.

    Axes of one length shrink together, then each separately, then leading axes of length 1 are removed.
    `fails` returns False for shapes that the op does not accept; it is called at most `runs` times.  The search is
    deterministic.
    """
    search = _Search(shapes, fails, runs)
    axes = [(name, axis) for name, shape in shapes.items() for axis in range(len(shape))]
    lengths = sorted({shapes[name][axis] for name, axis in axes}, reverse=True)
    for length in lengths:
        search.shorten([(name, axis) for name, axis in axes if shapes[name][axis] == length])
    for axis in axes:
        search.shorten([axis])
    search.drop_axes()
    return search.best


class _Search:
    def __init__(self, shapes: Shapes, fails: Callable[[Shapes], bool], runs: int) -> None:
        self.best = {name: tuple(shape) for name, shape in shapes.items()}
        self._fails, self._left = fails, runs
        self._known: dict[tuple[tuple[str, tuple[int, ...]], ...], bool] = {}

    def shorten(self, group: list[_Axis]) -> None:
        """Shorten these axes to the smallest failing length that bisection finds."""
        high = min(self.best[name][axis] for name, axis in group)
        if high < 2 or self._try(self._with(group, 1)):
            return
        low = 1  # the largest length that is assumed not to fail
        while high - low > 1 and self._left > 0:
            middle = 2 if low == 1 else (low + high) // 2  # most faults show with 2
            if self._try(self._with(group, middle)):
                high = middle
            else:
                low = middle

    def drop_axes(self) -> None:
        """Remove leading axes of length 1, from all tensors of the highest rank at once."""
        while self._left > 0:
            rank = max((len(shape) for shape in self.best.values()), default=0)
            tallest = [name for name, shape in self.best.items() if len(shape) == rank]
            if rank < 2 or any(self.best[name][0] != 1 for name in tallest):
                return
            if not self._try({name: shape[1:] if name in tallest else shape for name, shape in self.best.items()}):
                return

    def _try(self, shapes: dict[str, tuple[int, ...]]) -> bool:
        """Whether these shapes fail; if so, they become the best."""
        key = tuple(shapes.items())
        if key not in self._known:
            if self._left <= 0:
                return False
            self._left -= 1
            self._known[key] = self._fails(shapes)
        if self._known[key]:
            self.best = shapes
        return self._known[key]

    def _with(self, group: list[_Axis], extent: int) -> dict[str, tuple[int, ...]]:
        return {
            name: tuple(extent if (name, axis) in group else length for axis, length in enumerate(shape))
            for name, shape in self.best.items()
        }
