"""The keys of a test file: each a row, with what reads it.  A reader answers with a value, or with a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from udogen.backends import PLACES
from udogen.opdef import datatypes
from udogen.verify import tolerances, values
from udogen.verify.suite.model import EVERY, Builtin, Given, QuantWish, Shape

_SHAPE = re.compile(r"\d+(x\d+)*\Z")
_MOST_AXES = 8
_MOST_ELEMENTS = 1 << 28


class Fault(NamedTuple):
    """Why a value is not what its key wants."""

    message: str
    hint: str = ""


class Key(NamedTuple):
    """One key: what reads its value, and what it is for."""

    read: Callable[[Any, Path], Any]
    text: str


def one_of(raw: Any) -> list[Any]:
    """What may be one or a list of several, as a list."""
    return list(raw) if isinstance(raw, list) else [raw]


def _text(raw: Any, _folder: Path) -> str | Fault:
    return raw if isinstance(raw, str) and raw.strip() else Fault("this must be a text")


def _path(raw: Any, folder: Path) -> Path | Fault:
    return folder / raw if isinstance(raw, str) and raw else Fault("this must be a path, relative to the test file")


def _shape(raw: Any) -> Shape | Fault:
    fault = Fault(f"`{raw}` is no shape", 'as in "1x8x8x16", or [1, 8, 8, 16]; several: ["3x5", "7"]')
    if isinstance(raw, str):
        if not _SHAPE.match(raw):
            return Shape() if raw == "scalar" else fault
        raw = [int(part) for part in raw.split("x")]
    if not isinstance(raw, list) or not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in raw):
        return fault
    size = 1
    for extent in raw:
        size *= extent
    if len(raw) > _MOST_AXES or size > _MOST_ELEMENTS:
        return Fault(f"`{raw}` is too large for a test", f"at most {_MOST_AXES} axes and {_MOST_ELEMENTS} elements")
    return tuple(raw)


def _shapes(raw: Any, _folder: Path) -> tuple[Mapping[str, Shape], ...] | Fault:
    whole = isinstance(raw, list) and all(isinstance(each, int) for each in raw)
    return _choices([raw] if whole else one_of(raw), _shape)


def _choices(raw: list[Any], read: Callable[[Any], Any]) -> tuple[Mapping[str, Any], ...] | Fault:
    """A list of values for all tensors, or of tables that name some."""
    found = []
    for each in raw:
        table = each if isinstance(each, dict) else {EVERY: each}
        made = {name: read(value) for name, value in table.items()}
        fault = next((value for value in made.values() if isinstance(value, Fault)), None)
        if fault:
            return fault
        found.append(made)
    return tuple(found) or Fault("the list is empty", "leave the key out, or give at least one")


def _dtypes(raw: Any, _folder: Path) -> tuple[Mapping[str, str], ...] | Fault:
    def read(each: Any) -> str | Fault:
        row = datatypes.parse(each) if isinstance(each, str) else None
        if row is None or row.kind == "special":
            return Fault(f"`{each}` is no data type", "as in FLOAT_32, FLOAT_16, UFIXED_POINT_8, INT_32")
        return row.name

    return _choices(one_of(raw), read)


def _values(raw: Any, folder: Path) -> tuple[Mapping[str, values.Values | Given], ...] | Fault:
    def read(each: Any) -> values.Values | Given | Fault:
        if isinstance(each, str):
            if each.endswith(".npy"):
                return Given(file=folder / each)
            found = values.parse(each)
            return Fault(found, "as in normal, uniform(-3, 3), edge") if isinstance(found, str) else found
        if isinstance(each, list):
            return Given(each)
        return Fault(f"`{each}` says nothing of how to fill a tensor", "as in normal, uniform(-3, 3), x.npy")

    return _choices(one_of(raw), read)


def _seeds(raw: Any, _folder: Path) -> tuple[int, ...] | Fault:
    found = one_of(raw)
    if not found or not all(isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in found):
        return Fault("a seed is a whole number, not less than 0", "as in seed = 1, or seed = [1, 2, 3]")
    return tuple(found)


def _table(raw: Any, _folder: Path) -> Mapping[str, object] | Fault:
    return raw if isinstance(raw, dict) else Fault("this must be a table", "as in { axis = [0, -1] }")


def _quants(raw: Any, _folder: Path) -> Mapping[str, QuantWish] | Fault:
    if not isinstance(raw, dict):
        return Fault("this must be a table, tensor by tensor", "as in { input = { low = -6, high = 6 } }")
    made = {name: _quant(name, each) for name, each in raw.items()}
    fault = next((each for each in made.values() if isinstance(each, Fault)), None)
    return fault or {name: each for name, each in made.items() if isinstance(each, QuantWish)}


def _quant(name: str, raw: Any) -> QuantWish | Fault:
    hint = f"{name} = {{ low = -6, high = 6 }}: real numbers to cover; or {name} = {{ scale = 0.05, offset = -128 }}"
    if not isinstance(raw, dict) or not all(isinstance(n, int | float) and abs(n) < 1e38 for n in raw.values()):
        return Fault(f"the quantization of `{name}` is no table of numbers", hint)
    if raw.keys() == {"low", "high"} and raw["low"] < raw["high"]:
        return QuantWish(low=float(raw["low"]), high=float(raw["high"]))
    if raw.keys() in ({"scale"}, {"scale", "offset"}) and raw["scale"] > 0:
        return QuantWish(scale=float(raw["scale"]), offset=int(raw.get("offset", 0)))
    return Fault(f"the quantization of `{name}` has neither low and high nor a positive scale", hint)


def _counts(raw: Any, _folder: Path) -> Mapping[str, int] | Fault:
    if not isinstance(raw, dict) or not all(isinstance(each, int) and 0 < each < 1000 for each in raw.values()):
        return Fault("this must say of each repeated input how often it is there", "as in { inputs = 3 }")
    return raw


def _tolerance(raw: Any, _folder: Path) -> Mapping[str, tolerances.Tolerance] | Fault:
    found = tolerances.parse(raw)
    return Fault(found, "by data type: { FLOAT_16 = 2e-3, fixed = 1 }") if isinstance(found, str) else found


def _backends(raw: Any, _folder: Path) -> tuple[str, ...] | Fault:
    found = one_of(raw)
    odd = [each for each in found if each not in PLACES]
    return Fault(f"`{odd[0]}` is no backend", "there are " + ", ".join(PLACES)) if odd else tuple(found)


def _expect(raw: Any, _folder: Path) -> str | Fault:
    return raw if raw in ("numbers", "refusal") else Fault(f"`{raw}` is nothing to expect", "numbers, or refusal")


def _loops(raw: Any, _folder: Path) -> int | Fault:
    right = isinstance(raw, int) and not isinstance(raw, bool) and 1 <= raw <= 1_000_000
    return raw if right else Fault("this must be a whole number of executions", "as in loops = 100")


def _operations(raw: Any, _folder: Path) -> float | Fault:
    right = isinstance(raw, int | float) and not isinstance(raw, bool) and 0 <= raw < 1e15
    return float(raw) if right else Fault("this must be a number: operations for each element of the output")


def _builtin(raw: Any, _folder: Path) -> Builtin | Fault:
    hint = 'as in builtin = "Softmax", or { op = "Softmax", params = { axis = 3 } }'
    if isinstance(raw, str) and raw:
        return Builtin(raw)
    if not isinstance(raw, dict) or not raw.keys() <= {"op", "package", "params"} or not isinstance(raw.get("op"), str):
        return Fault("this names no built-in op", hint)
    return Builtin(raw["op"], str(raw.get("package", "qti.aisw")), dict(raw.get("params", {})))


def _htp_api(raw: Any, _folder: Path) -> str | Fault:
    return raw if raw in ("qhpi", "core") else Fault(f"`{raw}` is no interface of HTP", "qhpi, or core")


# What may stand in a case, and in its [[op]] for all of its cases.
CASE: Mapping[str, Key] = {
    "shape": Key(_shapes, "shapes of the inputs: of all, or { a = \"2x3\", b = \"3\" }"),
    "dtype": Key(_dtypes, "data types: of all tensors that can have it, or { input = \"FLOAT_32\", … }"),
    "values": Key(_values, "what inputs are filled with: " + ", ".join(values.KINDS) + ", x.npy, or numbers"),
    "seed": Key(_seeds, "of the random numbers"),
    "params": Key(_table, "parameters; a list is several cases, \"default\" leaves one out"),
    "quant": Key(_quants, "quantization of fixed-point tensors; without it, what covers the numbers"),
    "count": Key(_counts, "how often a repeated input is there"),
    "tolerance": Key(_tolerance, "how far a number may be off"),
    "backends": Key(_backends, "where it is run"),
    "expect": Key(_expect, "refusal: the op must refuse this"),
}  # fmt: skip
NAME = {"name": Key(_text, "what it is called")}
# What may stand in the file, and in an [[op]].
SUBJECT: Mapping[str, Key] = {
    "config": Key(_path, "the XML OpDef or JSON UDO config"),
    "kernels": Key(_path, "the folder with finished kernels"),
    "htp_api": Key(_htp_api, "which interface of HTP the kernels are for"),
    "rules": Key(_path, "shape rules in Python, compared with the references"),
    "converter": Key(_path, "the converter op package (folder or library) that is compared with the rules"),
}
OP: Mapping[str, Key] = {
    **NAME,
    **SUBJECT,
    "reference": Key(_text, "what the op is held against: FILE.py:FUNCTION, onnx:OP, torch:FUNCTION"),
    "loops": Key(_loops, "executions that are timed"),
    "operations": Key(_operations, "arithmetic operations for each element of the output"),
    "builtin": Key(_builtin, "the vendor's own op, to compare times with"),
    **CASE,
}
FILE: Mapping[str, Key] = SUBJECT
