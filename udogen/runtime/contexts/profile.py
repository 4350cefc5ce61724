"""Measurements of executions by the runtime, as rows of a report and as a trace that Perfetto opens."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from udogen.errors import write_file
from udogen.runtime.contexts.commands import ProfileRow

if TYPE_CHECKING:
    from udogen.qnn.handles import ProfileEvent

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
    rows = [cells for each in events for cells in _cells(each, "", 0, 0)]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(2)]
    for name, value, share in rows:
        yield f"{indent}{name.ljust(widths[0])}  {value.rjust(widths[1])}  {share}".rstrip()


def _cells(row: ProfileRow, indent: str, whole: int, unit: int) -> Iterator[tuple[str, str, str]]:
    name = row.name or ("part" if indent else "execution")
    share = f"{100 * row.value / whole:.1f} %" if whole and row.value and row.unit == unit else ""
    yield indent + name, value_text(row), share
    for each in row.below:
        yield from _cells(each, indent + "  ", row.value, row.unit)


def write_trace(file: Path, profiles: Sequence[GraphProfile]) -> None:
    """Write executions, one after the other, as a trace in Chrome's JSON format, which Perfetto opens.

    Parts with known cycles but unknown times are drawn as shares of the execution; the cycles are in the arguments.
    """
    begin, events = 0.0, [_named("process_name", "udogen", 1), *(_named("thread_name", *each) for each in _ROWS)]
    for each in profiles:
        length = each.seconds * 1e6
        measured = {row.name or "execution": value_text(row) for row in each.events}
        events.append(_slice(f"{each.context}: {each.graph}", begin, length, measured))
        for row in each.events:
            events += _parts(row, begin, length)
        begin += length
    write_file(file, json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, indent=1) + "\n")


def _parts(row: ProfileRow, begin: float, length: float) -> Iterator[dict[str, Any]]:
    """The parts of an event, one after the other, over the time that it took."""
    took = float(row.value) if row.unit == MICROSECONDS and row.value else length
    whole = sum(each.value for each in row.below) or 1
    at = begin
    for each in row.below:
        if each.value == 0:
            continue  # not measured
        part = float(each.value) if each.unit == MICROSECONDS else took * each.value / whole
        yield _slice(each.name or "part", at, part, {_UNITS.get(each.unit, "value"): each.value}, thread=2)
        at += part


def _named(what: str, name: str, thread: int) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": 1, "tid": thread, "args": {"name": name}}


def _slice(name: str, begin: float, length: float, arguments: dict[str, Any], thread: int = 1) -> dict[str, Any]:
    return {"name": name, "ph": "X", "ts": begin, "dur": length, "pid": 1, "tid": thread, "args": arguments}
