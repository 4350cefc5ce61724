"""The worker of `udogen run steps`: its steps, their inputs from files, and their results."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from udogen.errors import UsageError
from udogen.findings import suggestion
from udogen.runtime.contexts import arrays
from udogen.runtime.contexts.binaries import StoredContext
from udogen.runtime.contexts.commands import OutputRow, keys_of, output_row
from udogen.runtime.contexts.report import GraphProfile
from udogen.runtime.contexts.worker import ContextWorker, serve_contexts
from udogen.runtime.models.commands import GraphTiming, RunSteps, StepRan, StepsRan
from udogen.runtime.models.comparison import Expected
from udogen.runtime.models.description import shards_of
from udogen.runtime.models.measures import Timing
from udogen.runtime.models.model import Model
from udogen.runtime.models.opening import plan_sessions, wire_contexts
from udogen.runtime.models.wiring import Wiring, picture
from udogen.runtime.sessions import SessionPlan
from udogen.runtime.worker.serving import Commands, keeping_float_state

if TYPE_CHECKING:
    from udogen.qnn.system import TensorInfo
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
        before = [each.counts() for each in self.counted]
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
        return replace(ran, notes=tuple(str(each.message) for each in notes))


def _run_steps(command: RunSteps, model: Model, phase: Callable[[str], None]) -> StepsRan:
    order = command.description.graphs or model.graphs
    feeds = Feeds(command.feeds, {name: model.inputs(name) for name in dict.fromkeys(order)})
    expected = Expected(command.against, command.tolerance) if command.against else None
    profiles: dict[str, list[GraphProfile]] = {}
    ran: deque[StepRan] = deque(maxlen=_MOST_STEPS)
    for number in range(command.steps or (expected.steps(model) if expected else 1)):
        graph = order[min(number, len(order) - 1)]
        phase(f"step {number}: graph `{graph}`")
        ran.append(_step(command, model, feeds, expected, graph, number))
        if command.profile:
            profiles[graph] = model.profile_of(graph)
    found = _described(model.wiring, model.session_plan)
    if expected:
        found = replace(found, compared=expected.ended(), first=expected.first, not_compared=expected.not_compared())
    return replace(
        found,
        steps=tuple(ran),
        timings=tuple(_timing(model, name, row) for name, row in model.timings.items() if row.steps),
        memory=str(model.memory),
        memory_rows=model.memory.as_json(),
        plan=model.plan,
        copied=model.copied._asdict(),
        zeros=tuple(feeds.zeros),
        profiles=tuple(each for rows in profiles.values() for each in rows),
    )


def _step(command: RunSteps, model: Model, feeds: Feeds, expected: Expected | None, graph: str, number: int) -> StepRan:
    """Execute one step, then compare and save its outputs."""
    given = {name: feeds.of(graph, name, model.timings[graph].steps) for name in model.inputs(graph)}
    with keeping_float_state(f"an op of step {number}, graph `{graph}`,"):
        outputs = model.step(given, graph=graph)
    if expected is not None:
        expected.compare(model, graph, number, feeds.zeros)
    folder = command.output_dir / f"step_{number}" if command.output_dir else None
    rows = tuple(_row(model.outputs(graph)[name], array, folder) for name, array in outputs.items())
    return StepRan(number, graph, model.timings[graph].last, rows)


def _planned(command: RunSteps, runtime: Runtime, phase: Callable[[str], None]) -> StepsRan:
    """Describe a model without restoring anything."""
    description = command.description
    with ExitStack() as stack:
        phase("read the descriptions of the contexts")
        stored = [
            stack.enter_context(StoredContext(each, guarded=False, warn=False)) for each in shards_of(description)
        ]
        wiring = wire_contexts(description, stored)
        phase("place the contexts on sessions")
        found = _described(wiring, plan_sessions(description, wiring, stored, runtime))
        order = description.graphs or tuple(each.chain.name for each in wiring.chains)
        inputs = {each.chain.name: {row.name: row.info for row in each.inputs} for each in wiring.chains}
        feeds = Feeds(command.feeds, inputs)
        for graph in dict.fromkeys(order):
            for name in inputs[graph]:
                feeds.of(graph, name, 0)
        return replace(found, zeros=tuple(feeds.zeros))


def _described(wiring: Wiring, plan: SessionPlan) -> StepsRan:
    where = {layer.name: plan.session_of(layer.name).name for layer in plan.layers}
    return StepsRan(
        dict(wiring.links),
        dict(wiring.state),
        wiring.proposed,
        tuple(picture(wiring, where)),
        plan.as_json(),
        tuple(str(plan).splitlines()),
    )


def _timing(model: Model, name: str, row: Timing) -> GraphTiming:
    contexts = [model.names[each] for each in model.wiring.chain(name).chain.contexts]
    return GraphTiming(name, row.steps, row.mean, row.least, dict(zip(contexts, row.contexts, strict=True)))


def _row(info: TensorInfo, array: Array, folder: Path | None) -> OutputRow:
    file = None
    if folder is not None:
        file = folder / f"{arrays.file_name(info.name)}.npy"
        arrays.write(file, array)
    return output_row(info, array, file)


class Feeds:
    """The inputs of each step, from files: one array for all steps, or one for each (an extra first axis, or .npz)."""

    def __init__(self, files: Mapping[str, str], inputs: Mapping[str, Mapping[str, TensorInfo]]) -> None:
        self._inputs, self._files = inputs, files
        self._read: dict[tuple[str, str], tuple[Any, bool]] = {}
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
        key = (file, name)
        if key not in self._read:
            self._read[key] = _load(Path(file), info)
        found, each = self._read[key]
        if not each:
            array: Array = found  # already converted
            return array
        if step >= len(found):
            raise UsageError(
                f"{file} has {len(found)} arrays for input `{name}`, step {step + 1} of graph `{graph}` needs one more",
                hint=f"give --steps {len(found)}, or a longer file",
            )
        return arrays.given_value(found[step], info, what=file)


def _keys(graph: str, name: str) -> tuple[str, ...]:
    return keys_of("", graph, name)[1:]


def _load(file: Path, info: TensorInfo) -> tuple[Any, bool]:
    """The array of a file (or its arrays, of an .npz), and whether there is one for each step."""
    if file.suffix == ".npz":
        return list(arrays.load_all(file).values()), True
    array, (shape, dtype) = arrays.load(file, info), arrays.layout(info)
    if file.suffix != arrays.NPY:
        if not array.size or array.size % info.nbytes:
            raise UsageError(
                f"{file} has {array.size} bytes, input `{info.name}` ({info.dtype} {list(shape)}) has {info.nbytes}",
                hint="give the tensor's stored bytes, once or for each step, or an array saved with numpy.save",
            )
        array = array.view(dtype).reshape(-1, *shape)
        return (array[0], False) if len(array) == 1 else (array, True)
    if arrays.fits(array.shape, info):
        return arrays.given_value(array, info, what=str(file)), False
    if arrays.fits(array.shape[1:], info) and len(array):
        return array, True
    raise UsageError(
        f"{file} has the shape {list(array.shape)}, input `{info.name}` has "
        + (info.sizes if any(info.dynamic) else str(list(shape))),
        hint="give that shape, or one array for each step: "
        + f"[{', '.join(map(str, ('steps', *shape)))}]"
        + (", or an .npz file of arrays of several shapes" if any(info.dynamic) else ""),
    )


def main() -> None:
    """Execute models."""
    serve_contexts(ModelWorker)
