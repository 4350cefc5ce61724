"""The attributes of nodes in another order, as bytes to be written over a model's own: none moves but attributes.

Field numbers are those of the public `onnx.proto3`.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from udogen.opdef.onnx.slim import BYTES, Field, fields

# message -> {field: message}: the way to the nodes.
_WAY: Mapping[str, Mapping[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {6: "graph", 11: "graph"},
}
_OP_TYPE, _ATTRIBUTE, _NAME = 4, 5, 1  # of a node, of a node, of an attribute


def edits(path: Path, order: Mapping[str, Sequence[str]]) -> tuple[tuple[int, bytes], ...]:
    """(where, what) for each node of these ops whose attributes are not in this order; others come before those."""
    wanted = {op: names for op, names in order.items() if len(names) > 1}
    if not wanted:
        return ()
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        memoryview(data) as all_,
    ):
        found = list(_edits(all_, 0, len(all_), "model", wanted))
    return tuple(found)


def _edits(
    data: memoryview, begin: int, end: int, kind: str, order: Mapping[str, Sequence[str]]
) -> Iterator[tuple[int, bytes]]:
    rows = list(fields(data, begin, end)) if kind == "node" else []
    names = order.get(_text(data, rows, _OP_TYPE), ()) if rows else ()
    parts = [row for row in rows if row.number == _ATTRIBUTE]
    bodies = any(row.wire == BYTES and row.number in (6, 11) for p in parts for row in fields(data, p.body, p.end))
    if len(parts) > 1 and names and not bodies:
        places = {name: place for place, name in enumerate(names)}
        keyed = [(places.get(_text(data, fields(data, p.body, p.end), _NAME), -1), p) for p in parts]
        ordered = [part for _, part in sorted(keyed, key=lambda row: row[0])]
        if ordered != parts:
            others = [row for row in rows if row.number != _ATTRIBUTE]
            yield begin, b"".join(bytes(data[row.begin : row.end]) for row in (*others, *ordered))
        return
    for row in rows or fields(data, begin, end):
        inner = _WAY.get(kind, {}).get(row.number)
        if inner and row.wire == BYTES:
            yield from _edits(data, row.body, row.end, inner, order)


def _text(data: memoryview, rows: Iterable[Field], number: int) -> str:
    """The text that a field of a message is; empty where there is none."""
    found = next((row for row in rows if row.number == number), None)
    return bytes(data[found.body : found.end]).decode("utf-8", "replace") if found else ""
