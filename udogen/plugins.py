"""Plug-ins: backends, places, clients, verbs and sources that other distributions, or folders of udogen itself, add.

They are entry points `NAME = MODULE:OBJECT` of these groups:

* `udogen.backends`: a `Backend`
* `udogen.places`: a `Place` of `udogen test`; with a `Program`, it needs no backend
* `udogen.clients`: a `Client` of `udogen register` and `udogen script`
* `udogen.verbs`: a command of click; NAME is `VERB`, or `GROUP VERB` as in `run model`
* `udogen.sources`: a `ModelSource` that `udogen new --from-NAME` and `udogen inspect` read

Folders of udogen list theirs in `ENTRY_POINTS`.  The metadata of distributions is read only for a name that is unknown,
or for a list of all names, because that takes longer than most verbs; for backends, which are always listed, only where
a distribution has some.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from udogen.errors import UsageError

_FOLDERS = ("udogen.onnx",)  # udogen works without them

_Object = TypeVar("_Object")


@cache
def _of_folders(group: str) -> Mapping[str, str]:
    """Name -> MODULE:OBJECT of the folders of udogen; a folder that is missing is not installed."""
    rows: dict[str, str] = {}
    for name in _FOLDERS:
        try:
            rows |= importlib.import_module(name).ENTRY_POINTS.get(group, {})
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
    return rows


@cache
def _of_distributions(group: str) -> Mapping[str, str]:
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group=f"udogen.{group}")}


def names(group: str) -> list[str]:
    """The names of all plug-ins of a group, those of udogen first."""
    return list({**_of_folders(group), **_of_distributions(group)})


def installed(group: str) -> list[str]:
    """The names of all plug-ins of a group, for every start: metadata is read only if a distribution has the group."""
    return names(group) if any(f"[udogen.{group}]".encode() in text for text in _entry_points()) else []


def _entry_points() -> Iterator[bytes]:
    for path in sys.path:
        with suppress(OSError), os.scandir(path) as rows:
            for row in rows:
                if row.name.endswith(".dist-info"):
                    with suppress(OSError), open(f"{row.path}/entry_points.txt", "rb") as file:
                        yield file.read()


@cache
def load(group: str, name: str) -> Any:
    """The object of a plug-in; None if there is no such name."""
    value = _of_folders(group).get(name) or _of_distributions(group).get(name)
    if value is None:
        return None
    try:
        return load_object(value)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"the plug-in `{name}` (udogen.{group}) cannot be loaded: {error}", hint="update or uninstall it"
        ) from error


def load_object(value: str) -> Any:
    """The object of MODULE:OBJECT."""
    module, _, attribute = value.partition(":")
    return getattr(importlib.import_module(module), attribute)


class Registry(Mapping[str, _Object]):
    """The objects of udogen by name, then those of plug-ins; `in`, `get` and `[]` load only the object of that name."""

    def __init__(self, group: str, own: Mapping[str, _Object]) -> None:
        self._group, self._own = group, own

    def __getitem__(self, name: str) -> _Object:
        value = self._own.get(name)
        if value is None:
            value = load(self._group, name)
        if value is None:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._own, *names(self._group))))

    def __len__(self) -> int:
        return len(list(iter(self)))


class ModelSource(NamedTuple):
    """Models of another program: projects are made from them, and their nodes are shown."""

    title: str  # as in "an ONNX model"
    is_source: Callable[[bytes, str], bool]  # by the first 64 bytes of a file, and its suffix
    drafts: Callable[..., Any]  # (path, wanted=, chosen=, dims=) -> a `Draft` for each of its ops
    view: Callable[[Path], Any]  # a `GraphView` of its nodes
    reference: Callable[[str, Path], Callable[..., Any]]  # of `SOURCE:NAME` in test files, in this folder


SOURCES: Registry[ModelSource] = Registry("sources", {})


def source_of(start: bytes, suffix: str) -> ModelSource | None:
    """The source that reads a file with these first bytes."""
    return next((row for row in SOURCES.values() if row.is_source(start, suffix)), None)
