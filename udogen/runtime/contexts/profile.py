"""What runtimes measured of executions: as rows of a report, and as a trace that Perfetto opens."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from udogen.errors import writing
from udogen.runtime.contexts.commands import ProfileRow

if TYPE_CHECKING:
    from udogen.qnn.handles import ProfileEvent

MICROSECONDS, BYTES, CYCLES = 1, 2, 3  # QNN_PROFILE_EVENTUNIT_…
_UNITS = {MICROSECONDS: "µs", BYTES: "bytes", CYCLES: "cycles"}


@dataclass(frozen=True)
class GraphProfile:
    """One execution of a graph: the seconds of the call, and the events of the runtime."""

    context: str
    graph: str
    seconds: float
    events: tuple[ProfileRow, ...]


def profile_row(event: ProfileEvent) -> ProfileRow:
    """An event, with its parts."""
    return ProfileRow(event.name, event.value, event.unit, tuple(map(profile_row, event.below)))


def value_text(row: ProfileRow) -> str:
    """A value with its unit; a time of zero was not measured."""
    if row.value == 0 and row.unit in (MICROSECONDS, CYCLES):
        return "not measured"
    unit = _UNITS.get(row.unit, "")
    return f"{row.value:,}{' ' + unit if unit else ''}"


def event_lines(row: ProfileRow, indent: str = "") -> Iterator[str]:
    """An event and its parts, each with its share of the whole."""
    yield f"{indent}{row.name or 'execution'}: {value_text(row)}"
    for below in row.below:
        share = (
            f"  {100 * below.value / row.value:.1f} %" if row.value and below.unit == row.unit and below.value else ""
        )
        yield f"{indent}  {below.name or 'part'}: {value_text(below)}{share}"
        for deeper in below.below:
            yield from event_lines(deeper, indent + "    ")


def write_trace(file: Path, profiles: Sequence[GraphProfile]) -> None:
    """Write executions, one after the other, as a trace in Chrome's JSON format, which Perfetto opens.

    Parts of which only cycles are known are drawn as their share of the execution; their cycles are in the arguments.
    """
    begin, events = 0.0, list[dict[str, Any]]()
    for each in profiles:
        length = each.seconds * 1e6
        measured = {row.name or "execution": value_text(row) for row in each.events}
        events.append(_slice(f"{each.context}: {each.graph}", begin, length, measured))
        for row in each.events:
            events += _parts(row, begin, length)
        begin += length
    with writing(file):
        file.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, indent=1) + "\n", "utf-8")


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


def _slice(name: str, begin: float, length: float, arguments: dict[str, Any], thread: int = 1) -> dict[str, Any]:
    return {"name": name, "ph": "X", "ts": begin, "dur": length, "pid": 1, "tid": thread, "args": arguments}
