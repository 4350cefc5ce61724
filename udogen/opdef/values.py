"""Texts of a config as values: booleans, ranks, defaults."""

from __future__ import annotations

import re
from collections.abc import Sequence

from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Rank, Value

LONGEST = 1 << 16  # characters of a default
_DEEPEST = 8
_LARGEST = {
    "FLOAT_16": 65504.0,
    "BFLOAT_16": 3.3895313892515355e38,
    "FLOAT_32": 3.4028234663852886e38,
    "FLOAT_64": 1.7976931348623157e308,
}
_TOKEN = re.compile(r"\s*([\[\]{},]|[^\s\[\]{},]+)")
_INTEGER = re.compile(r"[+-]?(0[xX][0-9a-fA-F]+|\d+)\Z")
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf|nan)[fF]?\Z", re.IGNORECASE)
_TRUTH = {"true": True, "1": True, "false": False, "0": False}


def parse_bool(text: str) -> bool | None:
    """true/false/1/0 in any case; None for anything else."""
    return _TRUTH.get(text.strip().lower())


def parse_rank(text: str) -> Rank | None:
    """`SCALAR`, `4D`, `ND`, `1`, `1D or 4D`, `2D-4D`; None if it is not a rank."""
    plain = text.strip().upper()
    if plain == "SCALAR":
        return Rank(scalar=True)
    if plain in ("ND", "N-D", "N", "ANY"):
        return Rank()
    spans = re.fullmatch(r"(\d)\s*-?\s*D?\s*(?:-|TO|\.\.)\s*(\d)\s*-?\s*D", plain)
    if spans:
        return Rank(tuple(range(int(spans[1]), int(spans[2]) + 1))) if spans[1] <= spans[2] else None
    parts = re.split(r"\s*(?:\bOR\b|[,/|])\s*", plain)
    ranks = [re.fullmatch(r"(\d)\s*-?\s*D?", part) for part in parts if part]
    if not ranks or not all(ranks):
        return None
    return Rank(tuple(sorted({int(match[1]) for match in ranks if match})))


def parse_default(text: str, datatypes: Sequence[DataType], enum: Sequence[str] = ()) -> Value | None:
    """The value of a Default text; None if it is not a value (`N-1`, `same as in[0]`)."""
    text = text.strip()
    kinds = {datatype.kind for datatype in datatypes} - {"special"}
    if kinds == {"string"}:
        return text
    if text in enum:
        return list(enum).index(text)
    if text[:1] in ("[", "{"):
        if kinds == {"bool"}:
            text = re.sub(
                r"\b(true|false)\b", lambda word: str(int(_TRUTH[word[0].lower()])), text, flags=re.IGNORECASE
            )
        tokens = _TOKEN.findall(text)[::-1]
        value = _parse_list(tokens, depth=0)
        return None if tokens or value is None else fit(value, datatypes)
    scalar = _parse_scalar(text)
    if kinds == {"bool"} and isinstance(parse_bool(text), bool):
        return parse_bool(text)
    if scalar is None and not kinds:
        return text  # "any other string": the type is not known yet
    return None if scalar is None else fit(scalar, datatypes)


def fit(value: Value, datatypes: Sequence[DataType]) -> Value:
    """The value with `1.0` as `1`, if all the types store integers."""
    if isinstance(value, tuple):
        return tuple(fit(part, datatypes) for part in value)
    whole = bool(datatypes) and all(datatype.range() for datatype in datatypes)
    return int(value) if whole and isinstance(value, float) and value.is_integer() else value


def from_json(raw: object, datatypes: Sequence[DataType], *, depth: int = 0) -> Value | None:
    """The value of a JSON default, or None."""
    if not isinstance(raw, str) and not depth and {datatype.kind for datatype in datatypes} == {"string"}:
        return None
    if isinstance(raw, list):
        parts = [from_json(part, datatypes, depth=depth + 1) for part in raw] if depth < _DEEPEST else [None]
        return None if None in parts else tuple(part for part in parts if part is not None)
    if isinstance(raw, str):
        return parse_default(raw, datatypes) if not depth else None
    if isinstance(raw, bool | int | float) and abs(raw) < 1e309:
        return fit(raw, datatypes)
    return None


def fault_of_default(value: Value, datatype: DataType, rank: Rank, *, enum: Sequence[str] = ()) -> str | None:
    """Why this value cannot be the default of a tensor of this type and rank, or None."""
    if datatype.kind == "special":
        return None
    depth = _depth(value)
    if depth is None:
        return "has rows of different length"
    if rank.scalar or rank.ranks == (0,):
        if depth:
            return "is a list, but its rank is that of a scalar"
    elif rank.ranks and depth not in rank.ranks and not (depth == 0 and isinstance(value, int | float)):
        return f"has rank {depth}, but the rank is {rank}"
    for leaf in flatten(value):
        fault = _fault_of_leaf(leaf, datatype)
        if fault:
            return fault
        if enum and isinstance(leaf, int) and not 0 <= leaf < len(enum):
            return f"is {leaf}, but the enumeration has only 0 … {len(enum) - 1}"
    return None


def flatten(value: Value) -> list[bool | int | float | str]:
    """The leaves of a value, in row-major order."""
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in flatten(part)]
    return [value]


def shape(value: Value) -> tuple[int, ...]:
    """The shape of a (regular) value; a scalar has none."""
    if isinstance(value, tuple):
        return (len(value), *(shape(value[0]) if value else ()))
    return ()


def show(value: Value) -> str:
    """A value as a config writes it."""
    if isinstance(value, tuple):
        return "[" + ", ".join(show(part) for part in value) + "]"
    if isinstance(value, bool):
        return "1" if value else "0"
    return value if isinstance(value, str) else repr(value)


def _parse_scalar(text: str) -> int | float | None:
    if _INTEGER.match(text) and len(text) <= 40:
        return int(text, 0) if "x" in text.lower() else int(text)
    if _FLOAT.match(text) and len(text) <= 80:
        value = float(text.rstrip("fF") if not text.lower().endswith("inf") else text)
        return None if abs(value) == float("inf") and "inf" not in text.lower() else value
    return None


def _parse_list(tokens: list[str], *, depth: int) -> Value | None:
    """The bracketed list on top of the stack `tokens`; None if it is malformed or too deep."""
    opening = tokens.pop()
    if depth >= _DEEPEST:
        return None
    closing = {"[": "]", "{": "}"}[opening]
    items: list[Value] = []
    while tokens and tokens[-1] != closing:
        item = _parse_list(tokens, depth=depth + 1) if tokens[-1] in "[{" else _parse_scalar(tokens.pop())
        if item is None or not tokens:
            return None
        items.append(item)
        if tokens[-1] == ",":
            tokens.pop()
        elif tokens[-1] != closing:
            return None
    if not tokens:
        return None
    tokens.pop()
    return tuple(items)


def _depth(value: Value) -> int | None:
    if not isinstance(value, tuple):
        return 0
    depths = {_depth(part) for part in value}
    lengths = {len(part) if isinstance(part, tuple) else -1 for part in value}
    if len(depths) > 1 or len(lengths) > 1 or None in depths:
        return None
    inner = depths.pop() if depths else 0
    return None if inner is None else inner + 1


def _fault_of_leaf(leaf: bool | int | float | str, datatype: DataType) -> str | None:
    if datatype.kind == "string":
        return None
    if isinstance(leaf, str):
        return f"is text, but the type is {datatype.name}"
    span = datatype.range()
    if span is None:
        most = _LARGEST.get(datatype.name)
        if most is not None and most < abs(leaf) < float("inf"):
            return f"is {leaf}, but {datatype.name} holds -{most:g} … {most:g}"
        return None
    if isinstance(leaf, float):
        return f"is {leaf!r}, but {datatype.name} holds integers"
    if not span[0] <= leaf <= span[1]:
        return f"is {leaf}, but {datatype.name} holds {span[0]} … {span[1]}"
    return None
