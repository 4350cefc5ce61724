"""Serialized ONNX models, read as bytes: without their weights, or with the attributes of nodes in another order.

A model of gigabytes is mapped, never read as a whole: only its structure is copied.  WireField numbers are those of the
public `onnx.proto3`.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

LARGEST = 1 << 12  # bytes of a tensor's data that stay: shapes, axes, scales of channels
_DEEPEST = 90  # messages in messages; protobuf itself stops at 100
_MOST = 1 << 30  # bytes of structure alone: no real model comes near

# message -> {field: message}; what is not named here is copied unchanged.
_INNER: Mapping[str, Mapping[int, str]] = {
    "model": {7: "graph", 8: "opset", 25: "function"},
    "graph": {1: "node", 5: "tensor", 11: "value", 12: "value", 13: "value", 15: "sparse"},
    "function": {7: "node", 9: "opset", 11: "attribute", 12: "value"},
    "value": {2: "type"},
    "type": {1: "tensor_type"},
    "tensor_type": {2: "shape"},
    "shape": {1: "dimension"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
# Packed numbers, raw bytes and texts of a tensor; training info, descriptions and metadata are of no use here.
_DATA = {"tensor": {4, 5, 6, 7, 9, 10, 11}}
_USELESS: Mapping[str, frozenset[int]] = {
    "model": frozenset({20}),
    "graph": frozenset({10}),
    "node": frozenset({6}),
    "function": frozenset({8}),
}
# What protobuf takes for texts without looking, and hands out as bytes where they are none.
_TEXTS: Mapping[str, frozenset[int]] = {
    "model": frozenset({2, 3, 4}),
    "opset": frozenset({1}),
    "graph": frozenset({2}),
    "function": frozenset({1, 4, 5, 6, 10, 13}),
    "node": frozenset({1, 2, 3, 4, 7, 8}),
    "attribute": frozenset({1, 21}),
    "tensor": frozenset({8}),
    "value": frozenset({1}),
    "dimension": frozenset({2}),
}
_VARINT, _EIGHT, BYTES, _FOUR = 0, 1, 2, 5


class Malformed(ValueError):
    """These bytes are not a message."""


class WireField(NamedTuple):
    """One field of a message: where it begins with its key, where its content does, and where that ends."""

    number: int
    wire: int
    begin: int
    body: int
    end: int


def fields(data: memoryview, at: int, end: int) -> Iterator[WireField]:
    """The fields of the message between two places; raises Malformed where there is none."""
    while at < end:
        begin = at
        key, at = _varint(data, at)
        number, wire, body = key >> 3, key & 7, at
        if wire == BYTES:
            length, body = _varint(data, at)
            at = body + length
        elif wire == _VARINT:
            _, at = _varint(data, at)
        elif wire in (_EIGHT, _FOUR):
            at += 8 if wire == _EIGHT else 4
        else:
            raise Malformed("it has a field of an unknown type")
        if at > end or not number:
            raise Malformed("it is cut off")
        yield WireField(number, wire, begin, body, at)


def without_weights(data: memoryview) -> bytes:
    """The model without large data; raises Malformed where the bytes are none."""
    chunks = list(_message(data, "model", 0))
    if sum(map(len, chunks)) > _MOST:
        raise Malformed("its structure alone takes more than a gigabyte")
    return b"".join(chunks)


def _message(data: memoryview, kind: str, depth: int) -> Iterator[bytes]:
    if depth > _DEEPEST:
        raise Malformed("its graphs are nested too deeply")
    inner, useless, heavy = _INNER.get(kind, {}), _USELESS.get(kind, frozenset()), _DATA.get(kind, set())
    texts = _TEXTS.get(kind, frozenset())
    for number, wire, begin, at, end in fields(data, 0, len(data)):
        if wire == BYTES:
            if number in useless or (number in heavy and end - at > LARGEST):
                continue
            if number in texts:
                _check_text(data[at:end])
            if number in inner:
                parts = list(_message(data[at:end], inner[number], depth + 1))
                yield _number(number << 3 | wire)
                yield _number(sum(map(len, parts)))
                yield from parts
                continue
        yield bytes(data[begin:end])


def _check_text(raw: memoryview) -> None:
    try:
        str(raw, "utf-8")
    except UnicodeDecodeError:
        raise Malformed("one of its names is not UTF-8") from None


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    found = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise Malformed("it is cut off")
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, at
    raise Malformed("it holds a number of more than 64 bits")


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# message -> {field: message}: the way to the nodes.
_WAY: Mapping[str, Mapping[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {6: "graph", 11: "graph"},
}
_OP_TYPE, _ATTRIBUTE, _NAME = 4, 5, 1  # of a node, of a node, of an attribute


def reordered_attributes(path: Path, order: Mapping[str, Sequence[str]]) -> tuple[tuple[int, bytes], ...]:
    """(where, what) for each node of these ops whose attributes are not in this order; others come before those."""
    wanted = {op: names for op, names in order.items() if len(names) > 1}
    if not wanted:
        return ()
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        memoryview(data) as all_,
    ):
        found = list(_reordered(all_, 0, len(all_), "model", wanted))
    return tuple(found)


def _in_order(data: memoryview, parts: Sequence[WireField], names: Sequence[str]) -> list[WireField]:
    """The attributes of a node in the order of these names; others come first."""
    places = {name: place for place, name in enumerate(names)}
    keyed = [(places.get(_text(data, fields(data, part.body, part.end), _NAME), -1), part) for part in parts]
    return [part for _, part in sorted(keyed, key=lambda row: row[0])]


def _reordered(
    data: memoryview, begin: int, end: int, kind: str, order: Mapping[str, Sequence[str]]
) -> Iterator[tuple[int, bytes]]:
    rows = list(fields(data, begin, end))
    names = order.get(_text(data, rows, _OP_TYPE), ()) if kind == "node" else ()
    parts = [row for row in rows if row.number == _ATTRIBUTE] if names else []
    bodies = any(row.wire == BYTES and row.number in (6, 11) for p in parts for row in fields(data, p.body, p.end))
    if len(parts) > 1 and not bodies:
        ordered = _in_order(data, parts, names)
        if ordered != parts:
            others = [row for row in rows if row.number != _ATTRIBUTE]
            yield begin, b"".join(bytes(data[row.begin : row.end]) for row in (*others, *ordered))
        return
    for row in rows:
        inner = _WAY.get(kind, {}).get(row.number)
        if inner and row.wire == BYTES:
            yield from _reordered(data, row.body, row.end, inner, order)


def _text(data: memoryview, rows: Iterable[WireField], number: int) -> str:
    """The text that a field of a message is; empty where there is none."""
    found = next((row for row in rows if row.number == number), None)
    return bytes(data[found.body : found.end]).decode("utf-8", "replace") if found else ""
