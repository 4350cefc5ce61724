"""A stack of addresses as a person reads it: the kernel's functions with file and line, innermost first."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from udogen.build.dwarf import Lines, Place, readable
from udogen.runtime.op.faults import Frame

# What belongs to a library of the compiler, not to the kernel: by its name, or by the file it is in.
_STANDARD_NAME = re.compile(r"(std|__gnu_cxx|__cxxabiv1)::|operator (new|delete)\b|__")
_STANDARD_FILE = re.compile(r"/(include/c\+\+|libcxx(abi)?|bits|lib/clang|lib/gcc)/|^/usr/include/|/lib/std/")
# What udogen writes around a kernel: the dispatch, and the view of tensors.
_OURS = re.compile(r"(^|/)(src/utils|include/ops)/")
_ALLOCATOR = re.compile(r", std::allocator<[^<>]*> ?>")
_SHOWN = 8


@dataclass(frozen=True)
class Story:
    """What a stack tells."""

    place: Place | None  # the innermost line of the kernel itself; None where no name is known
    through: str  # what it called: `std::vector<float>::push_back`; empty where it allocates itself
    calls: tuple[Place, ...]  # the kernel's functions, innermost first
    has_lines: bool
    by_us: bool = False  # the innermost function of the package is one that udogen wrote around the kernel

    @property
    def where(self) -> str:
        """`keep` (src/ops/LeakyRelu.cpp:12)."""
        return shown(self.place) if self.place else "a function without a name"


def shown(place: Place) -> str:
    """A place in a sentence."""
    return f"`{place.function}` ({place.file}:{place.line})" if place.file else f"`{place.function}`"


class Stacks:
    """Reads stacks of one op package; use it as a context manager."""

    def __init__(self, library: Path, root: Path | None = None, *, package: str = "", op: str = "") -> None:
        self._lines = Lines(library)
        self._library = os.path.realpath(library)
        self._root = str(root.resolve()) if root else ""
        self._prefix = re.compile(
            rf"(ops::{re.escape(package)}::{re.escape(op)}::|\{{anonymous\}}::|\(anonymous namespace\)::)"
        )

    def __enter__(self) -> Stacks:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.__exit__()

    @property
    def has_lines(self) -> bool:
        """Whether the package was built with -g."""
        return self._lines.has_lines

    def story(self, frames: Iterable[Frame]) -> Story:
        """What a stack tells, innermost frame first."""
        places = [(place, inside) for frame in frames for place, inside in self._places(frame)]
        package = [index for index, (_, inside) in enumerate(places) if inside]
        own = [index for index in package if not _is_standard(places[index][0])] or package
        kernel = [index for index in own if not _is_ours(places[index][0])] or own
        first = kernel[0] if kernel else len(places)
        calls = tuple(places[index][0] for index in kernel)
        return Story(
            place=calls[0] if calls else None,
            through=places[first - 1][0].function if first else "",
            calls=calls[:_SHOWN],
            has_lines=self.has_lines,
            by_us=bool(own) and _is_ours(places[own[0]][0]),
        )

    def _places(self, frame: Frame) -> list[tuple[Place, bool]]:
        if os.path.realpath(frame.library) != self._library:
            return [(Place(readable(frame.symbol), "", 0), False)] if frame.symbol else []
        nameless = Place(f"{Path(self._library).name}+{frame.offset:#x}", "", 0)
        found = self._lines.places(frame.offset) or (nameless,)
        return [(Place(self._tidy(place.function), self.short(place.file), place.line), True) for place in found]

    def _tidy(self, function: str) -> str:
        return _ALLOCATOR.sub(">", self._prefix.sub("", function))

    def short(self, file: str) -> str:
        """As a person sees it who stands in the package's folder."""
        return os.path.relpath(file, self._root) if self._root and file.startswith(self._root + os.sep) else file


def _is_ours(place: Place) -> bool:
    return bool(_OURS.search(place.file)) or place.function.startswith("udo::")


def _is_standard(place: Place) -> bool:
    return bool(_STANDARD_NAME.match(place.function) or _STANDARD_FILE.search(place.file))
