"""Contexts executed in a child process: whatever one of them does, the others have their turn."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from udogen.error_tables import describe
from udogen.errors import RunFailed, UdogenError, UsageError, of_json
from udogen.opdef.problems import nearest
from udogen.qnn.interface import WARN
from udogen.runtime import failures, known
from udogen.runtime.child import Child, deadline_of
from udogen.runtime.contexts.binaries import Shard
from udogen.runtime.library import RuntimeLibrary, find_runtime
from udogen.runtime.op.calls import LogLine
from udogen.runtime.wire import Garbled, Message

_KEPT_LOG_LINES = 500
_START_SECONDS = 60.0
_SHOWN_LINES = 60


@dataclass(frozen=True)
class OpLibrary:
    """An op package to register first: LIB[:PROVIDER[:TARGET]]."""

    path: Path
    provider: str = ""
    target: str = ""


@dataclass(frozen=True)
class Job:
    """One context to execute."""

    index: int
    name: str
    binary: Path
    metadata: Path | None = None


def jobs_of(shards: Sequence[Shard]) -> list[Job]:
    """A job for each; names that several have get that of their folder."""
    times = Counter(each.name for each in shards)
    named = [each.name if times[each.name] == 1 else f"{each.binary.parent.name}_{each.name}" for each in shards]
    again = Counter(named)
    return [
        Job(number, name if again[name] == 1 else f"{number}_{name}", each.binary, each.json)
        for number, (each, name) in enumerate(zip(shards, named, strict=True))
    ]


@dataclass(frozen=True)
class How:
    """How every context is executed."""

    backend: str = "htp"
    kind: str = "auto"
    library: Path | None = None
    system: Path | None = None  # libQnnSystem, where it is not beside the library
    soc: int = 0
    device: int | None = None
    packages: tuple[OpLibrary, ...] = ()
    log_level: int = WARN
    graphs: tuple[str, ...] = ()
    inputs: Mapping[str, str] = field(default_factory=dict)  # TENSOR, GRAPH:TENSOR or CONTEXT:GRAPH:TENSOR -> file
    output_dir: Path | None = None
    loops: int = 1
    profile: bool = False
    prove: bool = False  # what packages count is told with each context, and each graph
    wishes: Mapping[str, Any] = field(default_factory=dict)  # of udogen.runtime.buffers.planning.BufferOptions
    sessions: int | None = None  # keep all contexts restored, on so many sessions; 0: on one for each device
    limit: int = 0  # bytes that a session may map
    timeout: float | None = None


class ContextChild:
    """A child with one runtime in it; made anew after a context has ended it."""

    def __init__(
        self,
        how: How,
        *,
        on_step: Callable[[str], None] = lambda _line: None,
        on_log: Callable[[LogLine], None] | None = None,
    ) -> None:
        self._how, self._on_log = how, on_log
        self._found: RuntimeLibrary = find_runtime(how.backend, explicit=how.library, kind=how.kind, on_step=on_step)
        self._child: Child | None = None
        self._phase = ""
        self.logs: deque[LogLine] = deque(maxlen=_KEPT_LOG_LINES)
        self.runtime: Message = {}

    def __enter__(self) -> ContextChild:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ask(self, order: Message, subject: str, timeout: float | None) -> Message:
        """Give an order; what goes wrong is a `UdogenError` about the subject."""
        if self._child is None:
            self._start()
        return self._ask(order, subject, timeout)

    def run(self, order: Message, subject: str, timeout: float | None) -> Message:
        """Execute a context; a graph that failed has what was printed meanwhile among its details."""
        answer = self.ask(order, subject, timeout)
        failed = [graph["error"] for graph in answer["graphs"] if "error" in graph]
        printed = known.telling(self._child.chatter()) if failed and self._child else []
        for error in failed:
            told = "\n".join([error["message"], *error["details"]])
            error["details"] += [line for line in printed[-_SHOWN_LINES:] if line not in told]
        return answer

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is not None:
            child.quit(5.0)

    def _start(self) -> None:
        how, found = self._how, self._found
        self._child = Child()
        order = {
            "do": "open contexts",
            "backend": how.backend,
            # Found already; the child shall not look for it, or compile it, again.
            "kind": "emulator" if found.emulator else "auto",
            "library": "" if found.emulator else str(found.path),
            "system": str(how.system or ""),
            "soc": how.soc,
            "log_level": how.log_level,
            "prove": how.prove,
            "packages": [[str(each.path), each.provider, each.target] for each in how.packages],
        }
        self.runtime = self._ask(order, f"the runtime {found.path}", max(how.timeout or 0.0, _START_SECONDS))["runtime"]

    def _ask(self, order: Message, subject: str, timeout: float | None) -> Message:
        child = self._child
        assert child is not None
        deadline = deadline_of(timeout)
        self.logs.clear()
        child.forget_chatter()
        self._phase = failures.START
        try:
            message, _ = child.ask(order, deadline=deadline, hear=self._hear)
            if message["event"] == "failed":
                raise self._explain(message, subject)
            return message
        except EOFError:
            scene = self._scene(subject)
            raise failures.of_death(scene, self._drop(grace=0.5)) from None
        except TimeoutError:
            self._drop()
            raise failures.of_timeout(self._scene(subject), timeout or 0.0) from None
        except Garbled as problem:
            scene = self._scene(subject)
            self._drop()
            raise failures.of_garbled(scene, str(problem)) from None
        except UdogenError:
            if order["do"] == "open contexts":
                self._drop()
            raise
        except BaseException:  # Ctrl-C: nothing may be left running
            self._drop()
            raise

    def _hear(self, message: Message) -> None:
        if message["event"] == "phase":
            self._phase = message["phase"]
            return
        line = LogLine(message["level"], message["text"], message["source"])
        self.logs.append(line)
        if self._on_log:
            self._on_log(line)

    def _explain(self, message: Message, subject: str) -> UdogenError:
        scene = self._scene(subject)
        if "function" not in message:
            return of_json(message)
        row = describe(message["code"])
        reasons = scene.complaints()
        if meant := known.explain(scene.subject, "\n".join([*reasons, *scene.chatter])):
            number = f"{message['function']}: {message['code']} ({row.name})"
            return RunFailed(meant[0], hint=meant[1], details=[number, *scene.details()])
        return RunFailed(
            f"{subject}: {message['function']} failed with {message['code']} ({row.name}) in phase `{self._phase}`: "
            + (reasons[0] if reasons else row.meaning),
            hint=row.remedy,
            details=scene.details(told=reasons[0] if reasons else ""),
        )

    def _scene(self, subject: str) -> failures.Scene:
        chatter = self._child.chatter() if self._child else []
        what, _, name = subject.partition(" ")
        return failures.Scene(
            library=name, phase=self._phase, call=None, logs=tuple(self.logs), chatter=chatter, what=what
        )

    def _drop(self, grace: float = 0.0) -> int:
        child, self._child = self._child, None
        return child.end(grace) if child else 0


def describe_contexts(
    child: ContextChild, jobs: Sequence[Job], how: How
) -> Iterator[tuple[Job, Message | UdogenError]]:
    """What each context says of itself, without restoring it."""
    for job in jobs:
        order = {"do": "describe context", "binary": str(job.binary), "metadata": str(job.metadata or "")}
        try:
            yield job, child.ask(order, f"context {job.binary}", how.timeout)
        except UdogenError as problem:
            yield job, problem


def check_names(described: Sequence[tuple[Job, Message]], files: Mapping[str, str], graphs: Sequence[str]) -> None:
    """Refuse graphs that no context has, and inputs that no graph has: all of them at once."""
    names = dict.fromkeys(graph["name"] for _, about in described for graph in about["graphs"])
    strange = [name for name in graphs if name not in names]
    if strange and described:
        raise UsageError(
            f"no context has the graph{'s' * (len(strange) > 1)} {', '.join(strange)}",
            details=_nearest(strange, names),
            hint=f"they have: {', '.join(names)}",
        )
    there: dict[str, None] = {}
    for job, about in described:
        for graph in about["graphs"]:
            if not graphs or graph["name"] in graphs:
                for tensor in graph["inputs"]:
                    there |= dict.fromkeys(keys_of(job.name, graph["name"], tensor["name"]))
    strange = [key for key in files if key not in there]
    if strange and described:
        tensors = sorted({key for key in there if ":" not in key})
        raise UsageError(
            f"no graph has {'this input' if len(strange) == 1 else 'these inputs'}: {', '.join(strange)}",
            details=_nearest(strange, there),
            hint="NAME is TENSOR, GRAPH:TENSOR or CONTEXT:GRAPH:TENSOR; tensors: " + ", ".join(tensors[:20]),
        )


def _nearest(words: Sequence[str], choices: Iterable[str]) -> list[str]:
    near = [(word, nearest(word, choices)) for word in words]
    return [f"`{word}`: did you mean `{found}`?" for word, found in near if found]


def place_contexts(child: ContextChild, jobs: Sequence[Job], how: How) -> Message:
    """Which context comes to which session; refused where a session would have to map more than its limit."""
    rows = [{"name": job.name, "binary": str(job.binary), "metadata": str(job.metadata or "")} for job in jobs]
    order = {"do": "place contexts", "contexts": rows, "sessions": how.sessions or 0, "limit": how.limit}
    return child.ask(order, "sessions of the contexts", how.timeout)


def keys_of(context: str, graph: str, tensor: str) -> tuple[str, str, str]:
    """The names by which an input can be given, the nearest first."""
    return f"{context}:{graph}:{tensor}", f"{graph}:{tensor}", tensor


def run_contexts(
    child: ContextChild,
    jobs: Sequence[Job],
    how: How,
    *,
    devices: Mapping[str, int] | None = None,
    on_context: Callable[[str], None] = lambda _name: None,
) -> Iterator[tuple[Job, Message | UdogenError]]:
    """Each context in turn, with what came of it."""
    for job in jobs:
        on_context(job.name)
        order = {
            "do": "run context",
            "index": job.index,
            "name": job.name,
            "binary": str(job.binary),
            "metadata": str(job.metadata) if job.metadata else "",
            "graphs": list(how.graphs),
            "inputs": dict(how.inputs),
            "output_dir": str(how.output_dir / job.name) if how.output_dir else "",
            "loops": how.loops,
            "profile": how.profile,
            "wishes": dict(how.wishes),
            "device": how.device if devices is None else devices[job.name],
            "keep": devices is not None,
        }
        try:
            yield job, child.run(order, f"context {job.binary}", how.timeout)
        except UdogenError as problem:
            yield job, problem
