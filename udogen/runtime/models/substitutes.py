"""Contexts of a model that are computed otherwise: by a Python reference, or another runtime in a separate worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from udogen import backends
from udogen.errors import UdogenError, UsageError
from udogen.opdef.problems import nearest, suggestion
from udogen.python_files import last_line, load_module, user_code, words_of
from udogen.qnn.system import BinaryInfo, GraphInfo, TensorInfo
from udogen.runtime.built import find_built
from udogen.runtime.contexts.arrays import as_stored, dequantize, layout
from udogen.runtime.contexts.binaries import Shard, StoredContext
from udogen.runtime.contexts.binary_info import head_of
from udogen.runtime.contexts.commands import ContextExecuted, ExecuteContext, Job, OpLibrary, RunOptions, TensorBytes
from udogen.runtime.contexts.computed import Compute, ComputedContext
from udogen.runtime.contexts.runs import ContextSession
from udogen.runtime.failures import Situation
from udogen.runtime.models.description import ModelDescription, ShardRuntime

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

# (graph, inputs by name) -> outputs by name; fixed-point tensors are real numbers.
ShardFunction = Callable[[str, Mapping[str, "Array"]], Mapping[str, "Array"]]


def check_names(description: ModelDescription, functions: Mapping[str, ShardFunction], names: Sequence[str]) -> None:
    """Raise unless all names of replaced contexts are those of the model, and each is replaced only once."""
    by_runtime = description.shard_runtimes
    for option, key, wanted in (
        ("--replace", "replace", [*description.replace, *functions]),
        ("--shard-runtime", "shard_runtimes", list(by_runtime)),
    ):
        for name in wanted:
            if name in names:
                continue
            near = nearest(name, names)
            where = description.place(key, name)
            raise UsageError(
                (f"{where}{key}.{name}" if where else f"{option} {name}")
                + ": the model has no context of this name"
                + (f": did you mean `{near}`?" if near else ""),
                hint="an op inside a context binary cannot be replaced, a whole context can: "
                f"--replace {names[0]}=reference.py:function, --shard-runtime {names[0]}=RUNTIME:FILE.bin "
                "(ops of an ONNX model: `udogen run model --replace OP=reference`)",
                details=[f"contexts: {', '.join(names)}"],
            )
    both = [name for name in by_runtime if name in description.replace or name in functions]
    if both:
        raise UsageError(
            f"{description.place('shard_runtimes', both[0])}context {both[0]} is replaced twice: by a function and "
            f"by {by_runtime[both[0]]}",
            hint="leave one out",
        )


class Substitutes:
    """The replacements of contexts of a model: `substitutes.of(name, stored)`."""

    def __init__(
        self,
        description: ModelDescription,
        functions: Mapping[str, ShardFunction],
        names: Sequence[str],
        stack: ExitStack,
    ) -> None:
        check_names(description, functions, names)
        self._description, self._stack = description, stack
        self._functions = {**{name: _function(text) for name, text in description.replace.items()}, **functions}

    def of(self, name: str, stored: StoredContext) -> StoredContext | ComputedContext:
        """The object to restore for a context of the model: its binary, or its replacement."""
        if name in self._functions:
            return ComputedContext(name, stored.info, _reference(name, self._functions[name], stored.info))
        if name in self._description.shard_runtimes:
            wanted = self._description.shard_runtimes[name]
            compute = self._in_worker(name, wanted, stored)
            return ComputedContext(f"{name} ({wanted})", stored.info, compute)
        return stored

    def _in_worker(self, name: str, wanted: ShardRuntime, original: StoredContext) -> Compute:
        """A function that executes the graphs of a context in another process, in another runtime."""
        file = wanted.file or original.path
        head = head_of(file)
        backend = wanted.backend or self._description.backend
        with StoredContext(Shard(file), guarded=False, warn=False) as stored:
            info = stored.info
        maker = backends.by_number(info.backend_id)
        if head.emulator != wanted.emulator or (maker is not None and maker.id != backend):
            made = f"{maker.id if maker else 'another backend'}{' (emulator)' if head.emulator else ''}"
            raise UsageError(
                f"context {name} is to run on {wanted}, but {file} was made for {made}",
                hint=f"give a binary that was made for it: --shard-runtime {name}={wanted.kind}:FILE.bin",
            )
        pairs = {each.name: _matching(each, info, file) for each in original.info.graphs}
        options = RunOptions(
            backend=backend,
            kind="emulator" if wanted.emulator else "auto",
            packages=tuple(_built_for(each, backend, name) for each in self._description.packages),
        )
        session = self._stack.enter_context(ContextSession(options))
        job = Job(0, name, file.resolve())

        def compute(graph: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
            mine, theirs = original.info.graph(graph), pairs[graph]
            given = tuple(
                TensorBytes(here.name, array.shape, np.ascontiguousarray(array))
                for here, there in zip(mine.inputs, theirs.inputs, strict=True)
                for array in (converted(inputs[here.name], here, there),)
            )
            command = ExecuteContext(job, theirs.name, given)
            ran = session.ask(command, ContextExecuted, Situation(str(file), what="context"))
            found = {each.name: each for each in ran.outputs}
            outputs = {}
            for here, there in zip(mine.outputs, theirs.outputs, strict=True):
                made = found[there.name]
                array = np.frombuffer(made.data.data, layout(there)[1]).reshape(made.shape)
                outputs[here.name] = converted(array, there, here)
            return outputs

        return compute


def _built_for(package: OpLibrary, backend: str, context: str) -> OpLibrary:
    if not package.path.is_dir():
        return package
    try:
        built = find_built(package.path, backend=backend, provider=package.provider)
    except UdogenError as fault:
        raise UsageError(
            f"context {context} is to run on another backend: {fault.message}",
            hint=f"generate and build the op package for {backend} too, in the same folder",
        ) from fault
    return OpLibrary(built.library, built.provider, package.target)


def _matching(graph: GraphInfo, info: BinaryInfo, file: Path) -> GraphInfo:
    """The graph of another binary that matches this one: same tensors and shapes; types may differ."""
    found = next((each for each in info.graphs if each.name == graph.name), None)
    if found is None and len(info.graphs) == 1:
        found = info.graphs[0]
    if found is None:
        raise UsageError(
            f"{file} has no graph `{graph.name}`", hint=f"it has: {', '.join(each.name for each in info.graphs)}"
        )
    sides = []
    for what, here, there in (("input", graph.inputs, found.inputs), ("output", graph.outputs, found.outputs)):
        by_name = {each.name: each for each in there}
        for each in here:
            other = by_name.get(each.name)
            if other is None or tuple(other.shape) != tuple(each.shape):
                has = "none of this name" if other is None else f"one of {list(other.shape)}"
                raise UsageError(
                    f"{what} `{each.name}` of graph `{graph.name}` is {list(each.shape)}, {file} has {has}",
                    hint="give a binary of the same shard",
                )
        if len(there) != len(here):
            raise UsageError(
                f"graph `{found.name}` of {file} has {len(there)} {what}s, the model's has {len(here)}",
                hint="give a binary of the same shard",
            )
        sides.append(tuple(by_name[each.name] for each in here))
    return GraphInfo(found.name, sides[0], sides[1])


def converted(array: Array, of: TensorInfo, to: TensorInfo) -> Array:
    """The numbers of one tensor as another stores them, converted through real numbers if type or grid differs."""
    if (of.dtype, of.quant) == (to.dtype, to.quant):
        return array
    _, dtype = layout(to)
    real = dequantize(array, of.quant)
    if real.dtype.kind in "iub" and dtype.kind in "iu" and to.quant is None:
        return np.asarray(real.astype(dtype))
    stored, _ = as_stored(np.asarray(real, np.float64), to, what=f"what computes `{to.name}`")
    return stored


def _function(text: str) -> ShardFunction:
    """The function that `reference.py:function` names."""
    file, _, name = text.rpartition(":")
    if not file.endswith(".py") or not name:
        raise UsageError(
            f"a context is replaced by `{text}`, which is no Python function",
            hint="give FILE.py:FUNCTION, a function of (graph, inputs) that returns outputs by name",
        )
    module = load_module(Path(file))
    found = getattr(module, name, None)
    if not callable(found):
        raise UsageError(
            f"{file} has no function `{name}`",
            hint=suggestion(name, [each for each, value in vars(module).items() if callable(value)], "define it there"),
        )
    made: ShardFunction = found
    return made


def _reference(name: str, function: ShardFunction, info: BinaryInfo) -> Compute:
    """A function of stored values that calls a user's function of real numbers."""

    def compute(graph: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        described = info.graph(graph)
        real = {each.name: dequantize(inputs[each.name], each.quant).copy() for each in described.inputs}
        try:
            with user_code():
                returned: Any = function(graph, real)
        except Exception as fault:  # a user's function may raise anything
            raise UdogenError(
                f"the function that replaces context {name} raised {words_of(fault)}",
                hint=last_line(fault) or "it is called with (graph, inputs)",
            ) from fault
        if not isinstance(returned, Mapping):
            raise UsageError(
                f"the function that replaces context {name} returns a {type(returned).__name__}",
                hint='return a dict: {"output": array}',
            )
        made = {}
        for each in described.outputs:
            if each.name in returned:
                made[each.name] = _stored_output(np.asarray(returned[each.name]), each, name)
        return made

    return compute


def _stored_output(array: Array, info: TensorInfo, context: str) -> Array:
    _, dtype = layout(info)
    if array.dtype.kind == "f" and dtype.kind in "iu" and info.quant is None:
        array = np.rint(array).astype(dtype)
    elif array.dtype != dtype and array.dtype.kind == dtype.kind:
        array = array.astype(dtype)
    stored, _ = as_stored(array, info, what=f"what replaces context {context}")
    return stored
