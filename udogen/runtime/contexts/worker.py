"""The worker of `udogen run context`: one runtime, and in it one context after the other, restored and executed.

numpy is imported while the first context is restored.
"""

from __future__ import annotations

import ctypes
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from udogen import error_tables
from udogen.errors import RunFailed, UdogenError
from udogen.qnn.interface import QnnError
from udogen.runtime.buffers.plan import PlannedBuffers, plan_buffers
from udogen.runtime.channel import Done, Quit
from udogen.runtime.contexts.binaries import Shard, StoredContext
from udogen.runtime.contexts.commands import (
    ContextDescribed,
    ContextRan,
    DescribeContext,
    GraphRan,
    InputRow,
    OpenContexts,
    OpLibrary,
    OutputRow,
    RunContext,
    keys_of,
    output_row,
    row_of,
)
from udogen.runtime.contexts.report import profile_row
from udogen.runtime.contexts.runtime import Runtime
from udogen.runtime.execution_counts import CountedPackage, NoCounter, counted_package
from udogen.runtime.library import RuntimeInfo
from udogen.runtime.worker.serving import Commands, Parent, failed, keeping_float_state, serve, timed

if TYPE_CHECKING:
    from udogen.runtime.contexts.context import Context
    from udogen.runtime.contexts.graph import Graph


class ContextWorker:
    """One runtime and the contexts restored in it; each phase is reported before it begins."""

    def __init__(self, parent: Parent) -> None:
        self._parent, self.phase = parent, parent.phase
        self._runtime: Runtime | None = None
        self.counted: list[CountedPackage] = []

    def commands(self) -> Commands:
        """Command -> function."""
        return {
            OpenContexts: self.open,
            DescribeContext: self.describe,
            RunContext: self.run,
            Quit: self.quit,
        }

    def open(self, command: OpenContexts) -> RuntimeInfo:
        """Load the runtime and register op packages."""
        self.phase("load the runtime")
        options = command.options
        self._system = options.system
        run = self._runtime = Runtime(
            options.backend,
            runtime=options.runtime,
            qnn_lib=options.qnn_lib,
            system=options.system,
            soc=options.soc,
            log=self._parent.log("runtime"),
            log_level=options.log_level,
        )
        for package in options.packages:
            self.phase(f"register the op package {package.path}")
            run.register(package.path, package.provider, package.target or None)
            if options.prove:
                self.counted.append(_counted(package))
        return run.about

    def describe(self, command: DescribeContext) -> ContextDescribed:
        """Describe a context."""
        with self._stored(command.shard, check=False) as stored:
            return ContextDescribed(stored.info.graphs)

    @property
    def runtime(self) -> Runtime:
        """The runtime that was opened."""
        assert self._runtime is not None
        return self._runtime

    def _stored(self, shard: Shard, *, check: bool = True) -> StoredContext:
        self.phase("read the description of the context")
        # Not guarded: this is a worker already.
        return StoredContext(shard, system_library=self._system, check_manifest=check, guarded=False, warn=False)

    def run(self, command: RunContext) -> ContextRan:
        """Restore one context and execute its graphs in the requested order."""
        options, began = command.options, time.perf_counter()
        before = [counter.counts() for counter in self.counted]
        with self._stored(command.shard) as stored:
            self.phase("restore the context")
            context = self.runtime.restore(
                stored.data,
                name=str(stored.path),
                info=stored.info,
                device=options.device,
                profile=options.profile,
            )
            seconds = time.perf_counter() - began
            with context:
                names = [name for name in options.graphs or context.names if name in context.names]
                if not names:
                    raise RunFailed(
                        f"{command.shard.binary} has none of the requested graphs: {', '.join(options.graphs)}",
                        hint=f"it has: {', '.join(context.names) or 'none'}",
                    )
                self.phase("bind its tensors")
                placement = plan_buffers(
                    command.shard.number,
                    [context.info.graph(name) for name in dict.fromkeys(names)],
                    alignment=options.alignment,
                    packed=options.packed,
                    shared=options.shared,
                )
                with warnings.catch_warnings(record=True) as notes, placement.allocate() as buffers:
                    graphs = tuple(self._graph(context, name, buffers, command) for name in names)
                self.phase("free the context")
        differences = (*stored.differences, *(str(note.message) for note in notes))
        return ContextRan(
            seconds,
            graphs,
            placement,
            stored.verdict.message,
            differences,
            shared=stored.info.sharing,
            proof=self.rises(before),
        )

    def rises(self, before: list[dict[str, int]]) -> tuple[Any, ...] | None:
        """The increases of the counts of op packages since `before`, if requested."""
        pairs = zip(self.counted, before, strict=True)
        return tuple(row for package, counts in pairs for row in package.rows(counts)) if self.counted else None

    def _graph(self, context: Context, name: str, buffers: PlannedBuffers, command: RunContext) -> GraphRan:
        ran, folder = GraphRan(name), command.options.output_dir
        try:
            self.phase(f"graph `{name}`: retrieve")
            graph = context.graph(name)
            buffers.bind(graph, shard=command.shard.number)
            given = _fill(graph, command.shard.name, command.options.inputs)
            ran = replace(ran, inputs=given)
            sized = [tensor.name for tensor in graph.inputs if any(tensor.dynamic)]
            shapes = {tensor.name: tensor.shape for tensor in given if tensor.name in sized}
            self.phase(f"graph `{name}`: execute")
            before = [counter.counts() for counter in self.counted]
            with keeping_float_state(f"an op of graph `{name}`"):
                seconds = [timed(partial(graph.execute, shapes)) for _ in range(command.options.loops)]
            ran = replace(ran, proof=self.rises(before), seconds=_median(seconds), fastest=min(seconds))
            ran = replace(ran, outputs=_outputs(graph, folder / command.shard.name if folder else None))
            if context.profile:
                ran = replace(ran, profile=tuple(map(profile_row, context.profile.events())))
        except UdogenError as problem:  # the other graphs may succeed
            error = failed(_in_words(problem, f"graph `{name}`"))
            ran = replace(ran, error=replace(error, function="", code=0))
        return ran

    def quit(self, _command: Quit) -> Done:
        """Free everything."""
        self.phase("free the backend")
        if self._runtime is not None:
            self._runtime.close()
        return Done()


def _in_words(problem: UdogenError, subject: str) -> UdogenError:
    """The error with the reason that the runtime or a package logged, if that is known; otherwise unchanged."""
    if isinstance(problem, QnnError) and (meant := error_tables.explain_log(subject, "\n".join(problem.logged))):
        return RunFailed(meant.sentence, hint=meant.hint, details=[problem.message, *problem.details])
    return problem


def _counted(package: OpLibrary) -> CountedPackage:
    if package.target == "HTP":
        raise NoCounter(
            f"what {package.path} executes on the DSP cannot be counted from here: a library for Hexagon counts there",
            hint="leave out --prove; the DSP's own log has the counts when the package is terminated",
        )
    return counted_package(package.path.resolve(), package.provider)


def _fill(graph: Graph, context: str, files: Mapping[str, str]) -> tuple[InputRow, ...]:
    from udogen.runtime.contexts import arrays

    rows = []
    for info in graph.inputs:
        into = graph.array(info.name)
        file = next((files[key] for key in keys_of(context, graph.name, info.name) if key in files), None)
        array, how = arrays.read(Path(file), info) if file else (graph.binding(info.name).zeros(), "zeros")
        into.reshape(-1)[: array.size] = array.reshape(-1)  # a smaller array is stored at the beginning
        rows.append(InputRow(**row_of(info, array).__dict__, file=file, how=how))
    return tuple(rows)


def _outputs(graph: Graph, folder: Path | None) -> tuple[OutputRow, ...]:
    from udogen.runtime.contexts import arrays

    rows = []
    for info in graph.outputs:
        array, file = graph.array(info.name), None
        if folder is not None:
            file = folder / arrays.file_name(graph.name) / f"{arrays.file_name(info.name)}.npy"
            arrays.write(file, array)
        rows.append(output_row(info, array, file))
    return tuple(rows)


def _median(values: Sequence[float]) -> float:
    """Same as `statistics.median`, whose import takes 5 ms."""
    ordered, half = sorted(values), len(values) // 2
    return (ordered[half] + ordered[-half - 1]) / 2


def serve_contexts(worker: Callable[[Parent], ContextWorker]) -> None:
    """Serve commands, then exit like a C program: Python has nothing left to free, and would take 50 ms for it."""
    serve(lambda parent: worker(parent).commands())
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    ctypes.CDLL(None).exit(0)


def main() -> None:
    """Restore and execute contexts."""
    serve_contexts(ContextWorker)
