"""The results of a run of contexts, as readable text and as `--json` prints them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from udogen.errors import UdogenError, write_file
from udogen.runtime import execution_counts
from udogen.runtime.contexts.binaries import Shard
from udogen.runtime.contexts.commands import ContextRan, GraphRan, OutputRow, ProfileRow, TensorRow
from udogen.runtime.failures import error_of
from udogen.runtime.library import RuntimeInfo
from udogen.tables import columns

if TYPE_CHECKING:
    from udogen.qnn.handles import ProfileEvent


Result = ContextRan | UdogenError
Row = tuple[Shard, Result]


def went_wrong(result: Result) -> bool:
    """Whether the context, or one of its graphs, failed."""
    return isinstance(result, UdogenError) or any(graph.error is not None for graph in result.graphs)


def as_json(rows: Sequence[Row], runtime: RuntimeInfo) -> dict[str, Any]:
    """The object that `udogen run context --json` prints."""
    return {"runtime": asdict(runtime), "contexts": [_as_json(shard, result) for shard, result in rows]}


def _as_json(shard: Shard, result: Result) -> dict[str, Any]:
    head = {"name": shard.name, "binary": str(shard.binary), "ok": not went_wrong(result)}
    if isinstance(result, UdogenError):
        return {**head, "error": dict(result.as_json())}
    return {
        **head,
        "seconds": result.seconds,
        "graphs": [_graph_as_json(graph) for graph in result.graphs],
        "manifest": result.manifest,
        "differences": list(result.differences),
        "shared": result.shared,
        **({} if result.proof is None else {"proof": list(result.proof)}),
    }


def _graph_as_json(graph: GraphRan) -> dict[str, Any]:
    """The fields that were reached in the execution of a graph."""
    row = {name: value for name, value in asdict(graph).items() if value is not None}
    for output in row.get("outputs", ()):
        if output["least"] is None:
            del output["least"], output["largest"]
    if graph.error is not None:
        row["error"] = dict(error_of(graph.error).as_json())
    return row


def counts_of(results: Iterable[Result]) -> dict[tuple[str, str, str], int]:
    """The counts of op packages, summed over all contexts, if they were requested."""
    succeeded = [result for result in results if not isinstance(result, UdogenError)]
    return execution_counts.summary([row for result in succeeded for row in result.proof or ()])


def profiles_of(rows: Sequence[Row]) -> list[GraphProfile]:
    """The measurements of each graph that succeeded."""
    return [
        GraphProfile(shard.name, graph.name, graph.seconds or 0.0, graph.profile or ())
        for shard, result in rows
        if not isinstance(result, UdogenError)
        for graph in result.graphs
        if graph.error is None
    ]


def lines(rows: Sequence[Row], runtime: RuntimeInfo) -> Iterator[str]:
    """The lines of a report: a paragraph for each context, and a summary."""
    for shard, result in rows:
        if isinstance(result, UdogenError):
            yield f"{shard.name}: failed"
            yield from _error(result.message, result.hint, result.details, "  ")
            continue
        yield f"{shard.name}: restored in {time_text(result.seconds)}"
        if result.shared:
            yield f"  stored once: {result.shared}"
        for note in result.differences:
            yield f"  ! {note}"
        for graph in result.graphs:
            yield from _graph(graph)
    wrong = sum(went_wrong(result) for _, result in rows)
    graphs = [graph for _, result in rows if not isinstance(result, UdogenError) for graph in result.graphs]
    fine = sum(graph.error is None for graph in graphs)
    yield from execution_counts.sentences(counts_of(result for _, result in rows))
    where = f"{runtime.name} ({runtime.build_id})"
    yield (
        f"{len(rows) - wrong} of {len(rows)} context{'s' * (len(rows) != 1)} fine, "
        f"{fine} graph{'s' * (fine != 1)} executed on {where}"
    )


def _graph(graph: GraphRan) -> Iterator[str]:
    if graph.error is not None:
        yield f"  {graph.name}: failed"
        yield from _error(graph.error.message, graph.error.hint, graph.error.details, "    ")
        return
    yield f"  {graph.name}: {time_text(graph.seconds or 0.0)} per execution"
    zeros = [row.name for row in graph.inputs or () if row.how == "zeros"]
    for given in graph.inputs or ():
        if given.how != "zeros":
            yield f"    {given.name}: {_type(given)} <- {given.file} ({given.how})"
    if zeros:
        yield f"    zeros: {', '.join(zeros)}"
    for row in graph.outputs or ():
        yield f"    {output_line(row)}"
    yield from profile_lines(graph.profile or (), "    ")


def _error(message: str, hint: str, details: Sequence[str], indent: str) -> Iterator[str]:
    yield f"{indent}error: {message}"
    yield from (f"{indent}  {line}" for line in details)
    if hint:
        yield f"{indent}  = {hint}"


def _type(row: TensorRow) -> str:
    return f"{row.dtype} {'x'.join(str(extent) for extent in row.shape) or 'scalar'}"


def output_line(row: OutputRow) -> str:
    """An output on one line: its type, its range, and the file it was saved to."""
    span = f", {row.least:.6g} … {row.largest:.6g}" if row.least is not None else ""
    return f"{row.name}: {_type(row)}{span}" + (f" -> {row.file}" if row.file else "")


def time_text(seconds: float) -> str:
    """A time in a suitable unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.2f} {unit}"
    return f"{seconds * 1e6:.1f} µs"


MICROSECONDS, BYTES, CYCLES = 1, 2, 3  # QNN_PROFILE_EVENTUNIT_…
_ROWS = (("graphs", 1), ("parts of graphs", 2))  # (name, thread) of the rows of the trace
_UNITS = {MICROSECONDS: "µs", BYTES: "bytes", CYCLES: "cycles"}


@dataclass(frozen=True)
class GraphProfile:
    """One execution of a graph: the seconds of the call, and the events of the runtime."""

    context: str
    graph: str
    seconds: float
    events: tuple[ProfileRow, ...]


def profile_row(event: ProfileEvent) -> ProfileRow:
    """An event and its parts as rows of a report."""
    return ProfileRow(event.name, event.value, event.unit, tuple(map(profile_row, event.below)))


def value_text(row: ProfileRow) -> str:
    """A value with its unit; a time of zero was not measured."""
    if row.value == 0 and row.unit in (MICROSECONDS, CYCLES):
        return "not measured"
    unit = _UNITS.get(row.unit, "")
    return f"{row.value:,}{' ' + unit if unit else ''}"


def profile_lines(events: Sequence[ProfileRow], indent: str = "") -> Iterator[str]:
    """Events and their parts as a table: name, value, share of the whole."""
    rows = [cells for event in events for cells in _cells(event, "", 0, 0)]
    yield from (indent + line for line in columns(rows, right={1})) if rows else ()


def _cells(row: ProfileRow, indent: str, whole: int, unit: int) -> Iterator[tuple[str, str, str]]:
    name = row.name or ("part" if indent else "execution")
    share = f"{100 * row.value / whole:.1f} %" if whole and row.value and row.unit == unit else ""
    yield indent + name, value_text(row), share
    for part in row.below:
        yield from _cells(part, indent + "  ", row.value, row.unit)


def write_trace(file: Path, profiles: Sequence[GraphProfile]) -> None:
    """Write executions, one after the other, as a trace in Chrome's JSON format, which Perfetto opens.

    Parts with known cycles but unknown times are drawn as shares of the execution; the cycles are in the arguments.
    """
    begin, events = 0.0, [_named("process_name", "udogen", 1), *(_named("thread_name", *row) for row in _ROWS)]
    for profile in profiles:
        length = profile.seconds * 1e6
        measured = {row.name or "execution": value_text(row) for row in profile.events}
        events.append(_slice(f"{profile.context}: {profile.graph}", begin, length, measured))
        for row in profile.events:
            events += _parts(row, begin, length)
        begin += length
    write_file(file, json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, indent=1) + "\n")


def _parts(row: ProfileRow, begin: float, length: float) -> Iterator[dict[str, Any]]:
    """The parts of an event, one after the other, over the time that it took."""
    took = float(row.value) if row.unit == MICROSECONDS and row.value else length
    whole = sum(below.value for below in row.below) or 1
    at = begin
    for below in row.below:
        if below.value == 0:
            continue  # not measured
        part = float(below.value) if below.unit == MICROSECONDS else took * below.value / whole
        yield _slice(below.name or "part", at, part, {_UNITS.get(below.unit, "value"): below.value}, thread=2)
        at += part


def _named(what: str, name: str, thread: int) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": 1, "tid": thread, "args": {"name": name}}


def _slice(name: str, begin: float, length: float, arguments: dict[str, Any], thread: int = 1) -> dict[str, Any]:
    return {"name": name, "ph": "X", "ts": begin, "dur": length, "pid": 1, "tid": thread, "args": arguments}
