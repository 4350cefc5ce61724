"""Contexts executed in a worker: the others are executed even if one of them crashes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from udogen import error_tables
from udogen.errors import UdogenError, UsageError, nearest
from udogen.qnn.handles import Closing
from udogen.runtime import failures
from udogen.runtime.channel import Failed, LogLine
from udogen.runtime.contexts.binaries import Shard
from udogen.runtime.contexts.commands import (
    ContextDescribed,
    ContextRan,
    DescribeContext,
    GraphRan,
    OpenContexts,
    RunContext,
    RunOptions,
    keys_of,
)
from udogen.runtime.failures import Situation
from udogen.runtime.library import RuntimeInfo, RuntimeLibrary, find_runtime
from udogen.runtime.worker_process import WorkerProcess, WorkerSession

_Reply = TypeVar("_Reply")

_MODULE = "udogen.runtime.contexts.worker"
_START_SECONDS = 60.0
_SHOWN_LINES = 60


class ContextSession(Closing):
    """A worker with one runtime; it is started again after a context has ended it."""

    def __init__(
        self,
        options: RunOptions,
        *,
        worker: str = _MODULE,
        first: WorkerProcess | None = None,
        on_step: Callable[[str], None] = lambda _line: None,
        on_log: Callable[[LogLine], None] | None = None,
    ) -> None:
        self._options = options
        self._found: RuntimeLibrary = find_runtime(
            options.backend, qnn_lib=options.qnn_lib, runtime=options.runtime, on_step=on_step
        )
        self._worker = WorkerSession(worker, first=first, explain=_explain, on_log=on_log)

    def __enter__(self) -> ContextSession:
        self._start()
        return self

    def close(self) -> None:
        """Have the worker free its contexts, and end it."""
        self._worker.close(5.0)

    def ask(self, command: object, reply: type[_Reply], situation: Situation) -> _Reply:
        """The worker's reply to a command."""
        if not self._worker.running:
            self._start()
        return self._worker.ask(command, reply, situation, self._options.timeout)

    def run(self, command: RunContext) -> ContextRan:
        """Execute a context; what was printed in that time is added to the details of a graph that failed."""
        ran = self.ask(command, ContextRan, _situation(command.shard))
        if all(graph.error is None for graph in ran.graphs):
            return ran
        printed = error_tables.without_noise(self._worker.output())[-_SHOWN_LINES:]
        return replace(ran, graphs=tuple(_with_lines(graph, printed) for graph in ran.graphs))

    def _start(self) -> None:
        options, chosen = self._options, self._found
        # The library is found already; the worker must not search for it, or compile it, again.
        runtime, library = ("emulator", None) if chosen.emulator else ("auto", chosen.path)
        command = OpenContexts(replace(options, runtime=runtime, qnn_lib=library))
        situation = Situation(f"runtime {chosen.path}", what="the")
        timeout = max(options.timeout or 0.0, _START_SECONDS)
        self.runtime = self._worker.start(command, RuntimeInfo, situation, timeout)


def _situation(shard: Shard) -> Situation:
    return Situation(str(shard.binary), what="context")


def _with_lines(graph: GraphRan, printed: Sequence[str]) -> GraphRan:
    error = graph.error
    if error is None:
        return graph
    text = "\n".join([error.message, *error.details])
    return replace(
        graph, error=replace(error, details=(*error.details, *(line for line in printed if line not in text)))
    )


def _explain(situation: Situation, failed: Failed) -> UdogenError:
    """The error that the worker reported."""
    if failed.function:
        return failures.api_error(situation, failed.function, failed.code)
    return failures.error_of(failed)


def describe_contexts(
    session: ContextSession, shards: Sequence[Shard]
) -> Iterator[tuple[Shard, ContextDescribed | UdogenError]]:
    """The description of each context, or an error; contexts are not restored for it."""
    for shard in shards:
        try:
            yield shard, session.ask(DescribeContext(shard), ContextDescribed, _situation(shard))
        except UdogenError as finding:
            yield shard, finding


def check_names(
    described: Sequence[tuple[Shard, ContextDescribed]], files: Mapping[str, str], graphs: Sequence[str]
) -> None:
    """Raise for graphs that no context has, or inputs that no graph has; all are reported at once."""
    if not described:
        return
    names = dict.fromkeys(graph.name for _, about in described for graph in about.graphs)
    if strange := [name for name in graphs if name not in names]:
        raise UsageError(
            f"no context has the graph{'s' * (len(strange) > 1)} {', '.join(strange)}",
            details=_nearest(strange, names),
            hint=f"they have: {', '.join(names)}",
        )
    known = dict.fromkeys(_input_names(described, graphs))
    if strange := [key for key in files if key not in known]:
        tensors = sorted({key for key in known if ":" not in key})
        raise UsageError(
            f"no graph has {'this input' if len(strange) == 1 else 'these inputs'}: {', '.join(strange)}",
            details=_nearest(strange, known),
            hint="NAME is TENSOR, GRAPH:TENSOR or CONTEXT:GRAPH:TENSOR; tensors: " + ", ".join(tensors[:20]),
        )


def _input_names(described: Sequence[tuple[Shard, ContextDescribed]], graphs: Sequence[str]) -> Iterator[str]:
    """All names by which inputs of these graphs, or by default of all graphs, can be given."""
    for shard, about in described:
        for graph in about.graphs:
            if not graphs or graph.name in graphs:
                for tensor in graph.inputs:
                    yield from keys_of(shard.name, graph.name, tensor.name)


def _nearest(words: Sequence[str], choices: Iterable[str]) -> list[str]:
    near = [(word, nearest(word, choices)) for word in words]
    return [f"`{word}`: did you mean `{choice}`?" for word, choice in near if choice]


def run_contexts(
    session: ContextSession,
    shards: Sequence[Shard],
    options: RunOptions,
    *,
    on_context: Callable[[str], None] = lambda _name: None,
) -> Iterator[tuple[Shard, ContextRan | UdogenError]]:
    """Execute the contexts in turn; yields each with its result or error."""
    for shard in shards:
        on_context(shard.name)
        try:
            yield shard, session.run(RunContext(shard, options))
        except UdogenError as finding:
            yield shard, finding
