"""Compares tensors of a model with expected ones: the first that differs, in the order of execution, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from udogen.errors import UsageError
from udogen.findings import suggestion
from udogen.runtime.contexts import arrays
from udogen.runtime.models.commands import ComparedTensor, Divergence
from udogen.runtime.models.model import Model

if TYPE_CHECKING:
    from udogen.qnn.system import TensorInfo
    from udogen.runtime.op.calls import Array


@dataclass(frozen=True)
class _Written:
    """One tensor that a context wrote in a step."""

    step: int
    graph: str
    stage: int  # of its chain
    context: str
    info: TensorInfo
    name: str  # CONTEXT.TENSOR
    array: Array


class Expected:
    """The expected tensors of a model, from an .npz file: `CONTEXT.TENSOR`, one array or one for each step."""

    def __init__(self, file: Path, tolerance: float) -> None:
        self._file, self._tolerance, self._arrays = file, tolerance, arrays.load_all(file)
        for name, array in self._arrays.items():
            if array.dtype.kind not in "fiub":
                raise UsageError(f"`{name}` of {file} is {array.dtype}", hint="give real numbers or stored integers")
        if not isfinite(tolerance):
            raise UsageError(f"the tolerance is {tolerance}: every number is within it", hint="give a finite number")
        self._compared: list[ComparedTensor] = []
        self._skipped: list[tuple[str, int]] = []  # written tensors that the file does not have, with their steps
        self._written: dict[str, tuple[int, int]] = {}  # tensor -> the step after the last that wrote it, and its rank
        self.first: Divergence | None = None

    def steps(self, model: Model) -> int:
        """The number of steps for which the file has arrays; at least 1."""
        ranks = {
            f"{model.names[context]}.{info.name}": len(arrays.layout(info)[0])
            for wired in model.wiring.chains
            for context, stage in zip(wired.chain.contexts, wired.chain.stages, strict=True)
            for info in stage.outputs
        }
        counts = [len(array) for name, array in self._arrays.items() if array.ndim == ranks.get(name, -2) + 1]
        return max([1, *counts])

    def compare(self, model: Model, graph: str, step: int, zeros: Iterable[str]) -> None:
        """Compare what the contexts wrote in a step, in their order; `zeros` are inputs that were given no data."""
        every = list(_written(model, graph, step))
        for each in every:
            self._written[each.name] = step + 1, each.array.ndim
            expected = self._of(each)
            if expected is None:
                self._skipped.append((each.name, step))
                continue
            row = self._row(each, expected)
            self._compared.append(row)
            if row.wrong and self.first is None:
                self.first = self._diverged(model, every, each, row, expected, zeros)

    def ended(self) -> tuple[ComparedTensor, ...]:
        """All comparisons; raises if there are none, or, unless a tensor differs, for names that no context has."""
        wrote = f"contexts wrote: {', '.join(self._written)}"
        strange = [name for name in self._arrays if name not in self._written]
        if strange and self.first is None:
            raise UsageError(
                f"no context wrote `{strange[0]}` of {self._file}",
                hint=suggestion(strange[0], self._written, wrote),
                details=[f"{len(strange)} of {len(self._arrays)} arrays were not compared: {', '.join(strange)}"],
            )
        if not self._compared:
            raise UsageError(f"nothing was compared: {self._file} has none of the tensors", hint=wrote)
        return tuple(self._compared)

    def not_compared(self) -> dict[str, tuple[str, ...]]:
        """Tensors of the model that the file does not have, and those of the file that no context wrote, or no step."""
        compared = {each.tensor for each in self._compared}
        skipped = dict.fromkeys(f"{name} in step {step}" if name in compared else name for name, step in self._skipped)
        later = [
            f"{name} from step {steps} on"
            for name, (steps, rank) in self._written.items()
            if name in self._arrays and self._arrays[name].ndim == rank + 1 and len(self._arrays[name]) > steps
        ]
        return {
            "model": tuple(skipped),
            "file": (*(each for each in self._arrays if each not in self._written), *later),
        }

    def _of(self, written: _Written, *, earlier: int = 0, name: str = "") -> Array | None:
        """The array in the file for a tensor (or for another name, or some steps earlier); None if there is none."""
        found = self._arrays.get(name or written.name)
        step = written.step - earlier
        if found is None or step < 0:
            return None
        if found.ndim == written.array.ndim + 1:
            found = found[step] if step < len(found) else None
        elif earlier:
            return None
        if found is None or found.shape == written.array.shape:
            return found
        if name:
            return None
        shapes = list(found.shape), list(written.array.shape)
        raise UsageError(
            f"`{written.name}` of {self._file} has the shape {shapes[0]}, the tensor {shapes[1]}",
            hint="give that shape, or one array for each step (a first axis more)",
        )

    def _row(self, written: _Written, expected: Array) -> ComparedTensor:
        apart, unit, strange = _distance(written, expected)
        wrong = strange or apart > self._tolerance
        return ComparedTensor(written.step, written.graph, written.context, written.name, apart, unit, wrong)

    def _diverged(
        self,
        model: Model,
        every: Iterable[_Written],
        written: _Written,
        row: ComparedTensor,
        expected: Array,
        zeros: Iterable[str],
    ) -> Divergence:
        stored = _as_stored(written, expected)
        off = np.nan_to_num(np.abs(written.array.astype(np.float64) - stored.astype(np.float64)), nan=np.inf)
        worst = tuple(int(each) for each in np.unravel_index(int(off.argmax()), off.shape)) if off.size else ()
        return Divergence(
            **row.__dict__,
            stage=written.stage,
            stages=len(model.wiring.chain(written.graph).chain.stages),
            elements=int((off > 0).sum()),
            size=int(off.size),
            index=worst,
            found=str(written.array[worst]) if off.size else "",
            expected=str(stored[worst]) if off.size else "",
            after=next((each.tensor for each in reversed(self._compared) if not each.wrong), ""),
            reason=self._reason(every, written, stored, zeros),
            dtype=str(written.array.dtype),
            shape=written.array.shape,
        )

    def _reason(self, every: Iterable[_Written], written: _Written, expected: Array, zeros: Iterable[str]) -> str:
        """The most likely reason that the model itself shows; empty if none is known."""
        found = written.array
        if not found.any() and expected.any():
            return "it is all zeros: nothing wrote it, or its context had zeros as inputs" + _listed(zeros)
        if expected.any() and np.unique(expected).size > 1:
            for earlier in (1, -1):
                other = self._of(written, earlier=earlier)
                if other is not None and np.array_equal(found, _as_stored(written, other)):
                    which = "before" if earlier == 1 else "after"
                    return f"it is what the file has for the step {which}: state or inputs are one step off"
            for each in every:
                if each.name != written.name and each.info.shape == written.info.shape:
                    other = self._of(written, name=each.name)
                    if other is not None and np.array_equal(found, _as_stored(written, other)):
                        return (
                            f"it is what the file has for `{each.name}`: are two links or states exchanged, "
                            "or does an op return its input unchanged?"
                        )
        if listed := _listed(zeros):
            return "some inputs were given nothing" + listed
        return ""


def _listed(zeros: Iterable[str]) -> str:
    names = ", ".join(f"`{each}`" for each in zeros)
    return f" (no --feed: {names})" if names else ""


def _written(model: Model, graph: str, step: int) -> Iterable[_Written]:
    """The tensors that the contexts wrote in the last step, in the order of execution."""
    chain = model.wiring.chain(graph).chain
    made = model.tensors(graph)
    for number, (context, stage) in enumerate(zip(chain.contexts, chain.stages, strict=True)):
        for info in stage.outputs:
            name = f"{model.names[context]}.{info.name}"
            if name in made:
                yield _Written(step, graph, number, model.names[context], info, name, made[name])


def _as_stored(written: _Written, expected: Array) -> Array:
    """Expected values as the tensor stores them: real numbers are quantized for a fixed-point tensor."""
    if written.info.quant is not None and expected.dtype.kind == "f":
        return arrays.quantized(expected, written.info, written.array.dtype)
    return expected


def _distance(written: _Written, expected: Array) -> tuple[float, str, bool]:
    """The distance, its unit, and whether NaN or infinity are at other places."""
    made, stored = written.array, _as_stored(written, expected)
    with np.errstate(invalid="ignore"):
        far = np.abs(made.astype(np.float64) - stored.astype(np.float64))
    apart = float(np.nanmax(far)) if far.size and not np.isnan(far).all() else 0.0
    if made.dtype.kind != "f":
        return apart, "steps", False
    spread = np.ptp(stored[np.isfinite(stored)].astype(np.float64)) if np.isfinite(stored).any() else 0.0
    strange = bool((np.isnan(made) != np.isnan(stored)).any())  # infinity is infinitely far from all others
    return apart / (float(spread) or 1.0), "of its range", strange
