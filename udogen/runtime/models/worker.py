"""The worker of `udogen run steps`: its steps, their inputs from files, and their results."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from udogen.errors import UsageError
from udogen.findings import suggestion
from udogen.runtime.contexts import arrays
from udogen.runtime.contexts.commands import OutputRow, keys_of, output_row
from udogen.runtime.contexts.report import GraphProfile
from udogen.runtime.contexts.worker import ContextWorker, serve_contexts
from udogen.runtime.models.commands import ComparedTensor, RunSteps, StepRan, StepsRan
from udogen.runtime.models.description import planned, sharing_in
from udogen.runtime.models.model import Model
from udogen.runtime.worker.serving import Commands, keeping_float_state

if TYPE_CHECKING:
    from udogen.qnn.tensors import QnnTensor
    from udogen.runtime.contexts.runtime import Runtime
    from udogen.runtime.op.calls import Array

_MOST_STEPS = 1000  # maximum number of steps that are reported one by one


class ModelWorker(ContextWorker):
    """One runtime with a model; it also serves commands about contexts."""

    def commands(self) -> Commands:
        """Command -> function."""
        return {**super().commands(), RunSteps: self.run_steps}

    def run_steps(self, command: RunSteps) -> StepsRan:
        """Execute the steps of a model."""
        before = [package.counts() for package in self.counted]
        return replace(run_model(command, self.runtime, self.phase), proof=self.rises(before))


def run_model(command: RunSteps, runtime: Runtime, phase: Callable[[str], None]) -> StepsRan:
    """Open the model in this process and execute its steps."""
    if command.dry_run:
        return _planned(command, runtime, phase)
    phase("open the model")
    with (
        warnings.catch_warnings(record=True) as notes,
        Model(command.description, runtime=runtime, profile=command.profile) as model,
    ):
        ran = _run_steps(command, model, phase)
        phase("close the model")
        return replace(ran, notes=tuple(str(note.message) for note in notes))


def _run_steps(command: RunSteps, model: Model, phase: Callable[[str], None]) -> StepsRan:
    order = command.description.graphs or model.graphs
    feeds = Feeds(command.feeds, {name: model.inputs(name) for name in dict.fromkeys(order)})
    expected = Expected(command.against, command.tolerance) if command.against else None
    profiles: dict[str, list[GraphProfile]] = {}
    ran: deque[StepRan] = deque(maxlen=_MOST_STEPS)
    for number in range(command.steps or (expected.steps(model) if expected else 1)):
        graph = order[min(number, len(order) - 1)]
        phase(f"step {number}: graph `{graph}`")
        ran.append(_step(command, model, feeds, graph, number))
        if expected is not None:
            expected.compare(model, graph, number)
        if command.profile:
            profiles[graph] = model.profile_of(graph)
    return StepsRan(
        model.wiring,
        model.session_plan,
        steps=tuple(ran),
        timings=tuple(row for row in model.timings.values() if row.steps),
        shared=model.shared,
        memory=model.memory,
        plan=model.plan,
        copied=model.copied,
        zeros=tuple(feeds.zeros),
        profiles=tuple(row for rows in profiles.values() for row in rows),
        compared=expected.ended() if expected else (),
        not_compared=expected.not_compared() if expected else {},
    )


def _step(command: RunSteps, model: Model, feeds: Feeds, graph: str, number: int) -> StepRan:
    """Execute one step and save its outputs."""
    given = {name: feeds.of(graph, name, model.timings[graph].steps) for name in model.inputs(graph)}
    with keeping_float_state(f"an op of step {number}, graph `{graph}`,"):
        outputs = model.step(given, graph=graph)
    folder = command.output_dir / f"step_{number}" if command.output_dir else None
    rows = tuple(_row(model.outputs(graph)[name], array, folder) for name, array in outputs.items())
    return StepRan(number, graph, model.timings[graph].last, rows)


def _planned(command: RunSteps, runtime: Runtime, phase: Callable[[str], None]) -> StepsRan:
    """Describe a model without restoring anything."""
    phase("read the descriptions of the contexts")
    with planned(command.description, runtime, guarded=False) as (wiring, sessions, binaries):
        inputs = {chain.name: {outer.name: outer.info for outer in chain.inputs} for chain in wiring.chains}
        feeds = Feeds(command.feeds, inputs)
        for graph, names in inputs.items():
            for name in names:
                feeds.of(graph, name, 0)
        return StepsRan(wiring, sessions, shared=sharing_in(binaries), zeros=tuple(feeds.zeros))


def _row(info: QnnTensor, array: Array, folder: Path | None) -> OutputRow:
    file = None
    if folder is not None:
        file = folder / f"{arrays.file_name(info.name)}.npy"
        arrays.write(file, array)
    return output_row(info, array, file)


class Feeds:
    """The inputs of each step, from files: one array for all steps, or one for each (an extra first axis)."""

    def __init__(self, files: Mapping[str, str], inputs: Mapping[str, Mapping[str, QnnTensor]]) -> None:
        self._inputs, self._files = inputs, files
        self._read: dict[tuple[str, str], Array] = {}
        self.zeros: dict[str, None] = {}
        known = dict.fromkeys(key for graph, rows in inputs.items() for name in rows for key in _keys(graph, name))
        strange = [key for key in files if key not in known]
        if strange:
            raise UsageError(
                f"no graph of the model takes the input `{strange[0]}`",
                hint=suggestion(strange[0], known, "inputs: " + ", ".join(key for key in known if ":" not in key)),
            )

    def of(self, graph: str, name: str, step: int) -> Array:
        """An input of a step; `step` counts the steps of its graph."""
        info = self._inputs[graph][name]
        file = next((self._files[key] for key in _keys(graph, name) if key in self._files), None)
        if file is None:
            self.zeros[name] = None
            return np.zeros(*arrays.layout(info))
        if (file, name) not in self._read:
            self._read[file, name] = _load(Path(file), info)
        array = self._read[file, name]
        if arrays.fits(array.shape, info):
            return arrays.given_value(array, info, what=file)
        if step >= len(array):
            raise UsageError(
                f"{file} has {len(array)} arrays for input `{name}`, step {step + 1} of graph `{graph}` needs one more",
                hint=f"give --steps {len(array)}, or a longer file",
            )
        return arrays.given_value(array[step], info, what=file)


def _keys(graph: str, name: str) -> tuple[str, ...]:
    return keys_of("", graph, name)[1:]


def _load(file: Path, info: QnnTensor) -> Array:
    """The array of a file, which may have a first axis for the steps."""
    array, (shape, dtype) = arrays.load(file, info), arrays.layout(info)
    if file.suffix != arrays.NPY:
        if not array.size or array.size % info.nbytes:
            raise UsageError(
                f"{file} has {array.size} bytes, input `{info.name}` ({info.dtype} {list(shape)}) has {info.nbytes}",
                hint="give the tensor's stored bytes, once or for each step, or an array saved with numpy.save",
            )
        array = array.view(dtype).reshape(-1, *shape)
        return array[0] if len(array) == 1 else array
    if arrays.fits(array.shape, info) or (arrays.fits(array.shape[1:], info) and len(array)):
        return array
    raise UsageError(
        f"{file} has the shape {list(array.shape)}, input `{info.name}` has "
        + (info.sizes if any(info.dynamic) else str(list(shape))),
        hint=f"give that shape, or one array for each step: [{', '.join(map(str, ('steps', *shape)))}]",
    )


# --- comparison -------------------------------------------------------------------------------------------------------


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

    def steps(self, model: Model) -> int:
        """The number of steps for which the file has arrays; at least 1."""
        ranks = {
            f"{model.names[context]}.{info.name}": len(info.shape)
            for chain in model.wiring.chains
            for context, stage in zip(chain.contexts, chain.stages, strict=True)
            for info in stage.outputs
        }
        return max([1, *(len(array) for name, array in self._arrays.items() if array.ndim == ranks.get(name, -2) + 1)])

    def compare(self, model: Model, graph: str, step: int) -> None:
        """Compare what the contexts wrote in a step, in their order."""
        chain, tensors = model.wiring.chain(graph), model.tensors(graph)
        for context, stage in zip(chain.contexts, chain.stages, strict=True):
            for info in stage.outputs:
                name = f"{model.names[context]}.{info.name}"
                if name not in tensors:
                    continue
                self._written[name] = step + 1, tensors[name].ndim
                expected = self._of(name, tensors[name], step)
                if expected is None:
                    self._skipped.append((name, step))
                else:
                    where = {"step": step, "graph": graph, "context": model.names[context], "tensor": name}
                    self._compared.append(self._difference(tensors[name], expected, info, where))

    def ended(self) -> tuple[ComparedTensor, ...]:
        """All comparisons; raises if there are none, or, unless a tensor differs, for names that no context has."""
        wrote = f"contexts wrote: {', '.join(self._written)}"
        strange = [name for name in self._arrays if name not in self._written]
        if strange and not any(tensor.wrong for tensor in self._compared):
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
        compared = {row.tensor for row in self._compared}
        skipped = dict.fromkeys(f"{name} in step {step}" if name in compared else name for name, step in self._skipped)
        later = [
            f"{name} from step {steps} on"
            for name, (steps, rank) in self._written.items()
            if name in self._arrays and self._arrays[name].ndim == rank + 1 and len(self._arrays[name]) > steps
        ]
        unknown = [name for name in self._arrays if name not in self._written]
        return {"model": tuple(skipped), "file": (*unknown, *later)}

    def _of(self, name: str, written: Array, step: int) -> Array | None:
        """The expected array for a tensor in a step; None if the file has none."""
        expected = self._arrays.get(name)
        if expected is not None and expected.ndim == written.ndim + 1:
            expected = expected[step] if step < len(expected) else None
        if expected is None or expected.shape == written.shape:
            return expected
        shapes = list(expected.shape), list(written.shape)
        raise UsageError(
            f"`{name}` of {self._file} has the shape {shapes[0]}, the tensor {shapes[1]}",
            hint="give that shape, or one array for each step (a first axis more)",
        )

    def _difference(self, written: Array, expected: Array, info: QnnTensor, where: Mapping[str, Any]) -> ComparedTensor:
        """What differs; expected real numbers are quantized for a fixed-point tensor."""
        if info.quant is not None and expected.dtype.kind == "f":
            expected = arrays.quantize(expected, info.quant, written.dtype, what=f"`{where['tensor']}`")
        apart, unit, misplaced = _distance(written, expected)
        off = np.nan_to_num(np.abs(written.astype(np.float64) - expected.astype(np.float64)), nan=np.inf)
        worst = tuple(map(int, np.unravel_index(int(off.argmax()), off.shape))) if off.any() else None
        return ComparedTensor(
            **where,
            dtype=str(written.dtype),
            shape=written.shape,
            apart=apart,
            unit=unit,
            wrong=misplaced or apart > self._tolerance,
            elements=int((off > 0).sum()),
            index=worst or (),
            found="" if worst is None else str(written[worst]),
            expected="" if worst is None else str(expected[worst]),
        )


def _distance(written: Array, stored: Array) -> tuple[float, str, bool]:
    """The distance, its unit, and whether NaN or infinity are at other places."""
    with np.errstate(invalid="ignore"):
        far = np.abs(written.astype(np.float64) - stored.astype(np.float64))
    apart = float(np.nanmax(far)) if far.size and not np.isnan(far).all() else 0.0
    if written.dtype.kind != "f":
        return apart, "steps", False
    spread = np.ptp(stored[np.isfinite(stored)].astype(np.float64)) if np.isfinite(stored).any() else 0.0
    misplaced = bool((np.isnan(written) != np.isnan(stored)).any())  # infinity is infinitely far from all others
    return apart / (float(spread) or 1.0), "of its range", misplaced


def main() -> None:
    """Execute models."""
    serve_contexts(ModelWorker)
