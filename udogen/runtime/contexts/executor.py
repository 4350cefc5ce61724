"""In the child: one runtime, and in it one context after the other, described, restored, executed and freed."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from udogen.errors import RunFailed, UdogenError
from udogen.qnn.interface import LogSink, QnnError
from udogen.runtime import known
from udogen.runtime.buffers.planning import BufferOptions, ExecutionStep, PlannedBuffers, plan_buffers
from udogen.runtime.contexts import arrays
from udogen.runtime.contexts.binaries import Shard, StoredContext
from udogen.runtime.contexts.running import keys_of
from udogen.runtime.contexts.runtime import Runtime
from udogen.runtime.proof import CountedPackage, NoCounter, counted_package
from udogen.runtime.wire import Message

if TYPE_CHECKING:
    from udogen.qnn.handles import ProfileEvent
    from udogen.runtime.contexts.graph import Graph
    from udogen.runtime.contexts.runtime import Context

OnPhase = Callable[[str], None]
_UNFIT = re.compile(r"[^\w.-]+")  # for a file's name


class Executor:
    """What the worker of `udogen run context` does; it announces each phase before it enters it."""

    def __init__(self, order: Message, on_phase: OnPhase, log: LogSink) -> None:
        on_phase("load the runtime")
        self._system = Path(order["system"]) if order["system"] else None
        self._runtime = Runtime(
            order["backend"],
            kind=order["kind"],
            library=Path(order["library"]) if order["library"] else None,
            system=self._system,
            soc=order["soc"],
            log=log,
            log_level=order["log_level"],
        )
        self._counted: list[CountedPackage] = []
        self._kept: list[Context] = []  # restored until the end
        for library, provider, target in order["packages"]:
            on_phase(f"register the op package {library}")
            self._runtime.register(Path(library), provider, target or None)
            if order["prove"]:
                self._counted.append(_counted(library, provider, target))

    def about(self) -> Message:
        """Which runtime it is."""
        run = self._runtime
        return {"name": run.name, "build_id": run.build_id, "path": str(run.path), "emulator": run.emulator}

    def describe(self, order: Message, on_phase: OnPhase) -> Message:
        """What a context says of itself."""
        with self._stored(order, on_phase, check=False) as stored:
            return {
                "graphs": [
                    {"name": graph.name, "inputs": [arrays.describe(each) for each in graph.inputs]}
                    for graph in stored.info.graphs
                ]
            }

    def place(self, order: Message, on_phase: OnPhase) -> Message:
        """The contexts on sessions: a table, and the device of each."""
        from udogen.runtime.sessions import placement, session

        shards = []
        for row in order["contexts"]:
            with self._stored(row, on_phase, check=False) as stored:
                shards.append(placement.SizedShard(row["name"], stored.info, stored.path.stat().st_size))
        on_phase("place the contexts on sessions")
        sessions = session.sessions_of(self._runtime, order["sessions"], limit=order["limit"])
        layers = placement.layers_of(shards)
        found = placement.place_layers(layers, sessions, exactly=order["sessions"])
        devices = {row["name"]: found.session_of(row["name"]).device for row in order["contexts"]}
        return {"table": placement.table_lines(found), "plan": found.as_json(), "devices": devices}

    def _stored(self, order: Message, on_phase: OnPhase, *, check: bool = True) -> StoredContext:
        on_phase("read what the context says of itself")
        metadata = Path(order["metadata"]) if order["metadata"] else None
        shard = Shard(Path(order["binary"]), metadata)
        # Not guarded: this is the child already.
        return StoredContext(shard, system_library=self._system, check_manifest=check, guarded=False, warn=False)

    def _restored(self, stored: StoredContext, order: Message, on_phase: OnPhase) -> Context:
        on_phase("restore the context")
        return self._runtime.restore(
            stored.data, name=str(stored.path), info=stored.info, device=order["device"], profile=order["profile"]
        )

    def run(self, order: Message, on_phase: OnPhase) -> Message:
        """One context: its graphs in the order asked for, each `loops` times."""
        began, before = time.perf_counter(), [each.counts() for each in self._counted]
        with self._stored(order, on_phase) as stored:
            context = self._restored(stored, order, on_phase)
            seconds = time.perf_counter() - began
            if order["keep"]:  # it stays restored: it shares its session with those that come
                self._kept.append(context)
            with nullcontext() if order["keep"] else context:
                names = [name for name in order["graphs"] or context.names if name in context.names]
                if not names:
                    raise RunFailed(
                        f"{order['binary']} has none of the graphs asked for: {', '.join(order['graphs'])}",
                        hint=f"it has: {', '.join(context.names) or 'none'}",
                    )
                on_phase("bind its tensors")
                steps = [ExecutionStep(order["index"], context.info.graph(name)) for name in names]
                plan = plan_buffers(steps, BufferOptions(**order["wishes"]))
                with PlannedBuffers(plan) as buffers:
                    rows = [self._graph(context, name, buffers, order, on_phase) for name in names]
                on_phase("free the context")
        proof = {"proof": self._rises(before)} if self._counted else {}
        return {"seconds": seconds, "graphs": rows, "plan": plan.as_json(), **_said_of(stored), **proof}

    def _rises(self, before: list[dict[str, int]]) -> list[Message]:
        pairs = zip(self._counted, before, strict=True)
        return [row for package, counts in pairs for row in package.rows(counts)]

    def _graph(
        self, context: Context, name: str, buffers: PlannedBuffers, order: Message, on_phase: OnPhase
    ) -> Message:
        row: Message = {"name": name}
        try:
            on_phase(f"graph `{name}`: retrieve")
            graph = context.graph(name)
            buffers.bind(graph, shard=order["index"])
            row["inputs"] = _fill(graph, order["name"], order["inputs"])
            on_phase(f"graph `{name}`: execute")
            before = [each.counts() for each in self._counted]
            seconds = [_timed(graph.execute) for _ in range(order["loops"])]
            if self._counted:
                row["proof"] = self._rises(before)
            row["seconds"], row["fastest"] = statistics.median(seconds), min(seconds)
            row["outputs"] = _outputs(graph, Path(order["output_dir"]) if order["output_dir"] else None)
            if context.profile:
                row["profile"] = [_event(event) for event in context.profile.events()[-1:]]
        except UdogenError as problem:  # the other graphs may be well
            row["error"] = dict(_in_words(problem, f"graph `{name}`").as_json())
        return row

    def close(self) -> None:
        """Free everything."""
        self._runtime.close()


def _in_words(problem: UdogenError, subject: str) -> UdogenError:
    """What is known of the reason that the runtime, or a package, logged for an error number."""
    if isinstance(problem, QnnError) and (meant := known.explain(subject, "\n".join(problem.logged))):
        return RunFailed(meant[0], hint=meant[1], details=[problem.message, *problem.details])
    return problem


def _counted(library: str, provider: str, target: str) -> CountedPackage:
    if target == "HTP":
        raise NoCounter(
            f"what {library} executes on the DSP cannot be counted from here: a library for Hexagon counts there",
            hint="leave out --prove; the DSP's own log has the counts when the package is terminated",
        )
    return counted_package(Path(library).resolve(), provider)


def _said_of(stored: StoredContext) -> Message:
    """What is odd about a file, though it ran."""
    return {"manifest": stored.verdict.message, "differences": [each.message for each in stored.differences]}


def _fill(graph: Graph, context: str, files: Mapping[str, str]) -> list[Message]:
    rows = []
    for info in graph.inputs:
        into = graph.array(info.name)
        file = next((files[key] for key in keys_of(context, graph.name, info.name) if key in files), None)
        how = arrays.read_into(into, Path(file), info) if file else "zeros"
        if not file:
            into[...] = 0
        rows.append({**arrays.describe(info), "file": file, "how": how})
    return rows


def _outputs(graph: Graph, folder: Path | None) -> list[Message]:
    rows = []
    for info in graph.outputs:
        found = graph.array(info.name)
        row = {**arrays.describe(info), "file": None, **arrays.span(found)}
        if folder is not None:
            place = folder / file_name(graph.name) / f"{file_name(info.name)}.npy"
            arrays.write(place, found)
            row["file"] = str(place)
        rows.append(row)
    return rows


def file_name(name: str) -> str:
    """A name of the model as the name of a file."""
    return _UNFIT.sub("_", name).strip(".") or "_"


def _event(event: ProfileEvent) -> Message:
    return {
        "name": event.name,
        "value": event.value,
        "unit": event.unit,
        "below": [_event(each) for each in event.below],
    }


def _timed(function: Callable[[], Any]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began
