"""Values of a document as type hints name them; each value of another type is reported at its line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from udogen.documents.document import Node
from udogen.errors import UsageError, nearest
from udogen.findings import suggestion

INVALID: Any = object()

# A type, or a function that makes the value of a node; it raises `UsageError`, or returns INVALID after reporting.
Hint = Any
T = TypeVar("T")

_KINDS: Mapping[Any, tuple[type | tuple[type, ...], str, str]] = {
    dict: (dict, "an object", "write it in braces: {…}"),
    list: (list, "a list", "write it in brackets: […]"),
    str: (str, "a string", 'write it in double quotes: "…"'),
    Path: (str, "a path", "relative to the folder of this file"),
    bool: (bool, "true or false", "write it without quotes"),
    int: (int, "an integer", "write it without quotes"),
    float: ((int, float), "a number", "write it without quotes"),
}


def value_of(node: Node, hint: Hint) -> Any:
    """The value of a node as a hint names it; INVALID, with a problem, if it is of another type."""
    origin: Any = get_origin(hint)
    parameters = get_args(hint)
    if origin is Annotated:
        return _converted(node, parameters[1])
    if origin in (Union, UnionType):
        return value_of(node, next(parameter for parameter in parameters if parameter is not NoneType))
    if origin is Literal:
        return _converted(node, one_of(parameters))
    if origin in (tuple, Mapping):
        return _collection(node, list if origin is tuple else dict, parameters[origin is Mapping])
    if hint in _KINDS:
        return _plain(node, hint)
    if is_dataclass(hint):
        made = instance(node, cast(type, hint))
        return INVALID if made is None else made
    return node.value if hint in (Any, object) else _converted(node, hint)


def _collection(node: Node, kind: type, hint: Hint) -> Any:
    """The values of a list or an object, each as the hint names it."""
    values = _all([value_of(each, hint) for each in node.items()]) if _is(node, kind) else INVALID
    return values if values is INVALID or kind is list else dict(zip(node.value, values, strict=True))


def read_keys(
    node: Node, keys: Mapping[str, Hint], *, others: Iterable[str] = (), strict: bool = True
) -> dict[str, Any]:
    """The valid values of an object by key; others: keys that are read elsewhere; strict: no key may be unknown."""
    if not _is(node, dict):
        return {}
    known = [*keys, *others]
    for name in node.value:
        if name not in known:
            hint = suggestion(name, known, f"known keys: {', '.join(known)}")
            report = node.at(name).error if strict else node.at(name).warn
            report(f"`{name}` is not a known key{'' if strict else '; it is ignored'}", hint)
    values = {name: value_of(node.at(name), hint) for name, hint in keys.items() if name in node.value}
    return {name: value for name, value in values.items() if value is not INVALID}


def instance(node: Node, kind: type[T]) -> T | None:
    """A dataclass with the values of an object; None, with a problem, if it cannot be made."""
    values = read_keys(node, keys_of(cast(type, kind)))
    given = node.value if isinstance(node.value, dict) else None
    required = [field.name for field in fields(kind) if field.default is field.default_factory is MISSING]  # type: ignore[arg-type]
    for name in required if given is not None else ():
        require(node, name)
    return kind(**values) if values.keys() >= set(required) else None


def require(node: Node, name: str, hint: str = "") -> None:
    """Report a key that is missing in an object."""
    if name not in node.value:
        near = nearest(name, node.value, cutoff=0.7)
        advice = f"`{near}` exists; did you mean `{name}`?" if near else hint or f"add `{name}`"
        node.error(f"`{name}` is missing", advice)


@cache
def keys_of(kind: type) -> Mapping[str, Hint]:
    """The fields of a dataclass with their type hints."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in fields(kind)}


def one_of(choices: Iterable[object]) -> Callable[[Node], Any]:
    """A hint: one of these values."""
    known = tuple(choices)

    def read(node: Node) -> Any:
        if node.value not in known:
            names = [str(entry) for entry in known if entry]
            near = nearest(str(node.value), names, cutoff=0.75)
            hint = f"did you mean `{near}`?" if near else f"one of: {', '.join(names)}"
            raise UsageError(f"{node.shown} is not allowed", hint=hint)
        return node.value

    return read


def between(kind: type[int | float], least: float, most: float = math.inf, hint: str = "") -> Callable[[Node], Any]:
    """A hint: a number that is not less than `least` and not more than `most`."""

    def read(node: Node) -> Any:
        value = _plain(node, kind)
        if value is not INVALID and not least <= value <= most:
            limits = f"{least} to {most}" if most < math.inf else f"{least} or more"
            raise UsageError(f"{node.shown} is out of range: {limits}", hint=hint)
        return value

    return read


def _is(node: Node, kind: Any) -> bool:
    """Whether a value is of a plain type; reported if not."""
    types, name, hint = _KINDS[kind]
    right = isinstance(node.value, types) and (kind is bool or not isinstance(node.value, bool))
    if not right:
        node.error(f"{node.key} must be {name}, not {node.shown}", hint)
    return right


def _plain(node: Node, kind: Any) -> Any:
    if not _is(node, kind):
        return INVALID
    if kind is int and not -(1 << 63) <= node.value < 1 << 64:
        node.error(f"{node.key}: {node.shown} does not fit into 64 bits", "give a smaller number")
        return INVALID
    if kind is Path:
        return node.document.folder / node.value
    return float(node.value) if kind is float else node.value


def _all(values: list[Any]) -> Any:
    return INVALID if INVALID in values else tuple(values)


def _converted(node: Node, convert: Callable[[Node], Any]) -> Any:
    try:
        return convert(node)
    except UsageError as fault:
        node.error(f"{node.key}: {fault.message}", fault.hint)
        return INVALID
