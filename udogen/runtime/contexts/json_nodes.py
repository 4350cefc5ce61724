"""A value of a parsed JSON file that knows where it stands, for readers that collect problems."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from udogen.configs.json_text import Path
from udogen.opdef.problems import Location, Problems

MISSING: Any = object()


class Where(NamedTuple):
    """Where problems are told, and the line of each value."""

    problems: Problems
    place: Callable[[Path], Location]

    def error(self, path: Path, message: str, hint: str) -> None:
        """Something that must be mended."""
        self.problems.error(self.place(path), message, hint)

    def warn(self, path: Path, message: str, hint: str) -> None:
        """Something that is taken as it is."""
        self.problems.warn(self.place(path), message, hint)


class Node:
    """One value; of an object with an `info` in it, the keys of both."""

    __slots__ = ("_layers", "path", "value", "where")

    def __init__(self, value: Any, path: Path, where: Where) -> None:
        self.value, self.path, self.where = value, path, where
        self._layers: list[tuple[dict[str, Any], Path]] = []
        if isinstance(value, dict):
            inner = value.get("info")
            if isinstance(inner, dict):
                self._layers.append((inner, (*path, "info")))
            self._layers.append((value, path))

    @property
    def is_object(self) -> bool:
        """Whether it is one."""
        return bool(self._layers) or isinstance(self.value, dict)

    @property
    def is_whole(self) -> bool:
        """Whether it is a whole number; true and false are none."""
        return isinstance(self.value, int) and not isinstance(self.value, bool)

    @property
    def shown(self) -> str:
        """The value as messages show it."""
        if isinstance(self.value, (dict, list)):
            return "an object" if isinstance(self.value, dict) else f"a list of {len(self.value)}"
        text = repr(self.value) if isinstance(self.value, str) else {None: "null"}.get(self.value, str(self.value))
        return text if len(text) <= 60 else text[:59] + "…"

    def get(self, *keys: str) -> Node | None:
        """What stands under the first of these keys that is there and not null."""
        for key in keys:
            for layer, path in self._layers:
                value = layer.get(key)
                if value is None and " " not in key:
                    value = layer.get(_spaced(key))  # some releases of the utility wrote `soc model`
                if value is not None:
                    return Node(value, (*path, key), self.where)
        return None

    def path_of(self, *keys: str) -> Path:
        """The place of the first of these keys that is there; its own where none is."""
        node = self.get(*keys)
        return self.path if node is None else node.path

    def items(self) -> Iterator[Node]:
        """The elements of a list."""
        for index, value in enumerate(self.value):
            yield Node(value, (*self.path, index), self.where)

    def text(self, *keys: str) -> str:
        """A text; empty where there is none."""
        node = self.get(*keys)
        if node is None:
            return ""
        if not isinstance(node.value, str):
            self.where.error(node.path, f"`{keys[0]}` is {node.shown}, not a text", "mend it, or write the file again")
            return ""
        return node.value

    def whole(self, key: str, otherwise: int) -> int:
        """A whole number that is not negative."""
        node = self.get(key)
        if node is None:
            return otherwise
        if not node.is_whole or node.value < 0:
            self.where.error(
                node.path, f"`{key}` is {node.shown}, not a whole number", "mend it, or write the file again"
            )
            return otherwise
        return int(node.value)


@cache
def _spaced(key: str) -> str:
    return "".join(f" {c.lower()}" if c.isupper() else c for c in key)
