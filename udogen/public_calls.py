"""Checks of the arguments of public functions and classes against their type hints, before anything is done with them.

`public_names` applies them when a public name is loaded; the modules of udogen call each other without them.  Hints
are read at the first call.  A list is taken for a tuple, and a str for a Path.
"""

from __future__ import annotations

import builtins
import math
import os
import sys
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, partial, wraps
from inspect import CO_VARARGS, unwrap
from numbers import Real
from operator import index
from pathlib import Path
from threading import TIMEOUT_MAX
from typing import Any, Literal, Union, cast, get_args, get_origin

from udogen.errors import UsageError, WrongType, kind_of

_CHECKED = "_has_checked_arguments"
_UNCHECKED = {"Verdict"}  # its rows have texts of any letters
_RESULTS = {"Outcome", "PackageLibrary"}  # udogen makes them
# They have checks of their own, or only udogen calls them.
_IN_EACH_STEP = {"Model.step", "Buffer.part", "Access.end"} | {
    f"{kind}.{name}"
    for kind, names in (
        ("Graph", "__call__ bind binding execute lend flip"),
        ("ManagedBuffer", "copy_to copy_from"),
        ("BufferPair", "copy_to copy_from"),
    )
    for name in names.split()
}
_OF_FILES = "udogen.qnn.quantization"  # its classes are read from binaries too, and checked with their tensors
_REFUSED = object()
_COUNT, _SECONDS = (0, 2**32 - 1), (0, math.inf)
# Limits of numbers with these names.
_LIMITS = {
    **dict.fromkeys(("timeout", "seconds"), _SECONDS),
    "within": (0, TIMEOUT_MAX),
    "log_level": (1, 5),  # QnnLog_Level_t
    "memory_limit_hint": (0, 2**64 - 1),
    **dict.fromkeys(("jobs", "loops", "soc", "sessions", "left_out", "queue_depth", "executions"), _COUNT),
    **dict.fromkeys(("planned", "passed", "failed", "error", "skipped", "ran", "absent", "unbuilt"), _COUNT),
    **dict.fromkeys(("width", "height", "pixel_format", "pixel_bytes", "shard", "device", "threshold"), _COUNT),
}


def checked(public: Any, name: str = "") -> Any:
    """A public function with checks; a public class gets them in its constructor and its public methods."""
    if isinstance(public, types.FunctionType):
        return _function(public, name or public.__name__, public.__module__)
    if isinstance(public, type) and not issubclass(public, BaseException) and public.__module__ != _OF_FILES:
        check_methods(public)
        constructor = "__new__" if issubclass(public, tuple) else "__init__"
        member = vars(public).get(constructor)
        if public.__name__ not in _RESULTS and member and not hasattr(getattr(member, "__func__", member), _CHECKED):
            _replace(public, constructor, member)
    return public


def check_classes(module: types.ModuleType) -> None:
    """Let the public methods of the classes of a module check their arguments."""
    if _CHECKED in vars(module):
        return
    setattr(module, _CHECKED, True)
    for kind in list(vars(module).values()):
        if isinstance(kind, type) and kind.__module__ == module.__name__ and not kind.__name__.startswith("_"):
            check_methods(kind)


def check_methods(kind: type) -> None:
    """Let the public methods of a class check their arguments: objects of it are what public functions return."""
    if kind.__name__ in _UNCHECKED or _CHECKED in vars(kind):
        return
    setattr(kind, _CHECKED, True)
    for name, member in list(vars(kind).items()):
        is_public = name == "__call__" or not name.startswith("_")
        if is_public and f"{kind.__name__}.{name}" not in _IN_EACH_STEP:
            _replace(kind, name, member)


def _replace(owner: type, name: str, member: object) -> None:
    what = owner.__name__ if name in ("__init__", "__new__") else f"{owner.__name__}.{name}"
    if isinstance(member, (classmethod, staticmethod)):
        is_method = isinstance(member, classmethod) or name == "__new__"
        call = _function(cast(types.FunctionType, member.__func__), what, owner.__module__, is_method=is_method)
        setattr(owner, name, type(member)(call))
    elif isinstance(member, types.FunctionType):
        setattr(owner, name, _function(member, what, owner.__module__, is_method=True))


def _function(function: types.FunctionType, what: str, module: str, *, is_method: bool = False) -> Callable[..., Any]:
    names, code = _parameters(function), unwrap(function).__code__
    if not names[is_method:]:
        return function
    names_there, checks = vars(sys.modules[module]), dict[str, Callable[[Any], Any]]()
    by_name, in_place = frozenset(names[code.co_posonlyargcount :]), names[: code.co_argcount]
    rest = names[-1] if code.co_flags & CO_VARARGS else ""

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        if not checks:
            hints = _hints(function, names_there)
            checks.update({name: partial(_checked, hint, _fit(hint), name, what) for name, hint in hints.items()})
        places = list(args)
        for place in range(is_method, len(args)):
            name = in_place[place] if place < len(in_place) else rest
            if name:
                places[place] = checks[name](args[place])
        for name in named.keys() & by_name:
            named[name] = checks[name](named[name])
        return function(*places, **named)

    setattr(call, _CHECKED, True)
    return call


class _ByName(type):
    """A class that is imported for type checkers only: its objects are known by its name."""

    def __instancecheck__(cls, value: object) -> bool:
        return any(kind.__name__ == cls.__name__ for kind in type(value).__mro__)


class _AsArray(type):
    """What numpy makes an array of numbers of."""

    def __instancecheck__(cls, value: Any) -> bool:
        numpy = sys.modules.get("numpy")
        if numpy is None or isinstance(value, (str, bytes, type)):
            return False
        try:
            return numpy.asarray(value).dtype.kind not in "OSUcmM"  # a mapping is an object there
        except (TypeError, ValueError):  # rows of several lengths
            return False


class _Array(metaclass=_AsArray):
    """An array."""


class _Names(dict[str, Any]):
    """The names in the module of a hint, and those that it imports for type checkers only."""

    def __missing__(self, name: str) -> Any:
        return _Array if name == "Array" else getattr(builtins, name, None) or _ByName(name, (), {})


def _parameters(function: Callable[..., Any]) -> Sequence[str]:
    """The parameters by position or name, in their order; then the one that takes all other places."""
    code: types.CodeType = unwrap(function).__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & CO_VARARGS)]


def _hints(function: Callable[..., Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """The types of the parameters, in their order."""
    names, found = _Names(known), {}
    for name in _parameters(function):
        hint = unwrap(function).__annotations__.get(name, Any)
        hint = getattr(hint, "__forward_arg__", hint)  # of a NamedTuple
        try:
            found[name] = eval(hint, {}, names) if isinstance(hint, str) else hint
        except (TypeError, AttributeError):
            found[name] = Any
    return found


def _checked(hint: Any, fit: Callable[[Any], Any], name: str, what: str, value: Any) -> Any:
    """The value as the hint has it; raises if it is of another type."""
    found = fit(value)
    if isinstance(found, (int, float)) and name in _LIMITS:
        least, most = _LIMITS[name]
        if not least <= found <= most and found == found:
            raise UsageError(f"{what}: `{name}` is {value}", hint=f"give a number from {least} to {most}")
    if found is _REFUSED:
        is_text = isinstance(value, str) and hint in (str, Path)
        raise (UsageError if is_text else WrongType)(
            f"{what}: `{name}` is {_shown(value)}", hint=f"give {_words(hint)}" + " without NUL" * ("\0" in str(value))
        )
    return found


def _shown(value: Any) -> str:
    """A value for a message: with the first of its elements, if it has some."""
    if isinstance(value, Mapping) and value:
        return f"{kind_of(value)} with {', '.join(kind_of(key) for key in next(iter(value.items())))}"
    if isinstance(value, (list, tuple)) and value:
        return f"{kind_of(value)} with {kind_of(value[0])}"
    return kind_of(value)


@cache
def _fit(hint: Any) -> Callable[[Any], Any]:
    """The function that returns a value as the hint has it, or _REFUSED."""
    origin, parts = get_origin(hint), get_args(hint)
    kind = origin or hint
    if origin in (Union, types.UnionType):
        return _fit_one_of(parts)
    if origin is Literal:
        return lambda value: value if isinstance(value, str) and value in parts else _REFUSED
    if hint in _PLAIN:
        return _PLAIN[hint]
    return _fit_kind(kind, parts)


def _fit_kind(kind: Any, parts: Sequence[Any]) -> Callable[[Any], Any]:
    if kind is Callable:
        return lambda value: value if callable(value) else _REFUSED
    if not isinstance(kind, type) or kind in (Any, object):
        return _anything
    if issubclass(kind, os.PathLike):
        return _path
    if issubclass(kind, Mapping):
        return _fit_mapping(*map(_fit, parts or (Any, Any)))
    if issubclass(kind, Iterable) and parts and kind.__module__ in ("builtins", "collections.abc"):
        return partial(
            _fit_elements, kind, tuple(_fit(part) for part in parts if part is not ...), parts[-1] is not ...
        )
    return partial(_fit_instance, kind)


def _anything(value: Any) -> Any:
    return value


def _fit_instance(kind: type, value: Any) -> Any:
    try:
        return value if isinstance(value, kind) else _REFUSED
    except TypeError:  # a protocol
        return value


def _fit_one_of(parts: Sequence[Any]) -> Callable[[Any], Any]:
    fits = [_fit(part) for part in parts]
    has_path = any(get_origin(part) is os.PathLike for part in parts)
    has_number = float in parts and int in parts

    def fit(value: Any) -> Any:
        if has_path and isinstance(value, (str, os.PathLike)):
            return value if _path(value) is not _REFUSED else _REFUSED
        if has_number and isinstance(value, float):
            return value  # a parameter of an op: nan is one of its values
        return next((found for fit in fits if (found := fit(value)) is not _REFUSED), _REFUSED)

    return fit


def _fit_mapping(of_key: Callable[[Any], Any], of_value: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def fit(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return _REFUSED
        fitted = {of_key(key): of_value(element) for key, element in value.items()}
        return _REFUSED if _has_refused([*fitted, *fitted.values()]) else fitted

    return fit


def _has_elements(kind: type, value: Any) -> bool:
    if isinstance(value, (str, bytes, bytearray, type, Mapping)):
        return False
    if issubclass(kind, Sequence):
        return hasattr(value, "__len__") and hasattr(value, "__getitem__")
    return isinstance(value, Collection)


def _fit_elements(kind: type, fits: Sequence[Callable[[Any], Any]], fixed: bool, value: Any) -> Any:
    if kind is Iterable and not isinstance(value, Collection):
        return value if hasattr(value, "__iter__") else _REFUSED
    if not _has_elements(kind, value):
        return _REFUSED
    fixed = fixed and issubclass(kind, tuple)
    if fixed and len(value) != len(fits):
        return _REFUSED
    fitted = [fits[place if fixed else 0](element) for place, element in enumerate(value)]
    if _has_refused(fitted):
        return _REFUSED
    return fitted if isinstance(value, list) and not issubclass(kind, tuple) else tuple(fitted)


def _has_refused(found: Iterable[Any]) -> bool:
    return any(element is _REFUSED for element in found)


def _text(value: Any) -> Any:
    return value if isinstance(value, str) and "\0" not in value else _REFUSED


def _integer(value: Any) -> Any:
    try:
        number = index(value)
    except TypeError:
        return _REFUSED
    return _REFUSED if isinstance(value, bool) or abs(number) >= 2**64 else value


def _number(value: Any) -> Any:
    return _REFUSED if isinstance(value, bool) or not isinstance(value, Real) or value != value else value


def _path(value: Any) -> Any:
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else b""
    return Path(text) if isinstance(text, str) and text and "\0" not in text else _REFUSED


_PLAIN: Mapping[Any, Callable[[Any], Any]] = {
    str: _text,
    int: _integer,
    float: _number,
    bool: lambda value: value if isinstance(value, bool) or type(value).__name__ == "bool_" else _REFUSED,
    None: lambda value: None if value is None else _REFUSED,
    types.NoneType: lambda value: None if value is None else _REFUSED,
}
_WORDS: Mapping[Any, str] = {
    str: "a str",
    int: "an integer",
    float: "a number",
    bool: "True or False",
    types.NoneType: "None",
}


def _words(hint: Any) -> str:
    """Name a type in a hint."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_words(part) for part in parts))
    if origin is Literal:
        return " or ".join(map(repr, parts))
    kind = origin or hint
    if kind in _WORDS:
        return _WORDS[kind]
    if kind is Callable:
        return "a function"
    if issubclass(kind, os.PathLike):
        return "a path (a str or a pathlib.Path)"
    if issubclass(kind, Mapping):
        return "a dict"
    if issubclass(kind, Iterable) and parts:
        several = ", ".join(_words(part) for part in parts if part is not ...)
        return f"{several} in a list or tuple"
    return f"{'an' if kind.__name__[:1] in 'AEIOUaeiou' else 'a'} {kind.__name__}"
