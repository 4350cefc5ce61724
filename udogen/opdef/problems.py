"""Problems with their locations in a config; collected, then reported together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from textwrap import wrap
from typing import NamedTuple

from udogen.errors import UdogenError, open_plain
from udogen.tables import many

_SHOWN = 160  # longer lines are cut
_MOST_SHOWN = 40
_MOST = 1000  # more errors mean that it is the wrong file


class Location(NamedTuple):
    """A place in a config file; line 0 means the file as a whole."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class Problem(NamedTuple):
    """An error or a warning at a location."""

    location: Location
    message: str
    hint: str = ""
    doubtful: bool = False  # a warning, unless --strict

    def as_json(self) -> dict[str, object]:
        """The problem as `--json` prints it."""
        return {
            "file": self.location.file,
            "line": self.location.line,
            "severity": "warning" if self.doubtful else "error",
            "message": self.message,
            "hint": self.hint,
        }


class Problems:
    """The collector that readers and rules write to."""

    def __init__(self) -> None:
        self._found: dict[Problem, None] = {}  # a set that keeps order
        self._counts = {True: 0, False: 0}
        self.contents: dict[str, bytes] = {}  # of the files that were read

    def error(self, location: Location, message: str, hint: str = "") -> None:
        """Add an error; raises ConfigError if there are too many."""
        self._add(Problem(location, message, hint))
        if self._counts[False] >= _MOST:
            raise ConfigError(self.all(), more=True)

    def warn(self, location: Location, message: str, hint: str = "") -> None:
        """Add a warning: something that works but is probably a mistake."""
        self._add(Problem(location, message, hint, doubtful=True))

    def _add(self, problem: Problem) -> None:
        self._counts[problem.doubtful] += 1
        if self._counts[problem.doubtful] <= _MOST:
            self._found[problem] = None

    def extend(self, others: Iterable[Problem]) -> None:
        """Add problems of another collector."""
        self._found.update(dict.fromkeys(others))

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The errors, in the order of the file."""
        return tuple(sorted((p for p in self._found if not p.doubtful), key=_place))

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The warnings, in the order of the file."""
        return tuple(sorted((p for p in self._found if p.doubtful), key=_place))

    def all(self) -> tuple[Problem, ...]:
        """Errors and warnings, in the order of the file."""
        return tuple(sorted(self._found, key=_place))

    def stop_if_any(self, *, strict: bool = False, what: str = "the config") -> None:
        """Raise with all problems if there is an error, or with `strict` a warning."""
        if self.errors or (strict and self.warnings):
            raise ConfigError(self.all(), strict=strict, what=what)


class ConfigError(UdogenError):
    """A config that cannot be used, with all reasons: `except ConfigError as error: print(*error.problems)`."""

    exit_code = 2
    kind = "config"
    problems: tuple[Problem, ...] = ()

    def __init__(
        self, problems: tuple[Problem, ...], *, strict: bool = False, more: bool = False, what: str = "the config"
    ) -> None:
        errors = [p for p in problems if not p.doubtful]
        shown = set((errors + [p for p in problems if p.doubtful])[:_MOST_SHOWN])
        self.problems = tuple(p for p in problems if p in shown)
        mended, doubtful = len(errors), len(problems) - len(errors)
        counts = [many(mended, "error")] if mended else []
        counts += [many(doubtful, "warning")] if doubtful else []
        hint = "--strict makes warnings errors" if strict and not mended else ""
        if len(self.problems) < len(problems):
            hint = f"{len(self.problems)} of them are shown"
        if more:
            hint = "and more: checking ended here"
        super().__init__(" and ".join(counts) + f" in {what}", hint=hint, details=map(line_of, self.problems))

    def as_json(self) -> dict[str, object]:
        """The error as `--json` prints it."""
        return {**super().as_json(), "problems": [p.as_json() for p in self.problems]}


def render(problem: Problem, lines: list[str] | None = None, *, width: int = 0) -> str:
    """`file:line: error: message`, the line (the part of it that fits into a terminal), and the hint."""
    severity = "warning" if problem.doubtful else "error"
    text = [f"{visible(str(problem.location))}: {severity}: {_cut(problem.message, 400)}"]
    number = problem.location.line
    if lines is not None and 0 < number <= len(lines):
        shown = _cut(lines[number - 1].strip(), _SHOWN)
        named = re.search(r"`([^`]+)`", problem.message)
        places = list(re.finditer(rf"(?<!\w){re.escape(named[1])}(?!\w)", shown)) if named else []
        begin, end = places[0].span() if len(places) == 1 and shown[: places[0].start()].isascii() else (0, 0)
        most = max(width - len("       | "), 20) if width else len(shown)
        first = max(0, min(begin - most // 3, len(shown) - most))
        part = shown[first : first + most]
        if first:
            part = "…" + part[1:]
        if first + most < len(shown):
            part = part[:-1] + "…"
        text.append(f"  {number:>4} | {part}")
        if end:
            text.append(f"       | {' ' * (begin - first)}{'^' * min(end - begin, most - (begin - first))}")
    if problem.hint:
        text.append(f"       = {_cut(problem.hint, 400)}")
    return "\n".join(text)


def line_of(problem: Problem) -> str:
    """The problem in one line."""
    return render(problem).replace("\n       = ", "; ")


def source_lines(file: str) -> list[str] | None:
    """The lines of a config; None if it cannot be read as text."""
    try:
        with open_plain(file) as stream:
            return decode(stream.read(8 << 20)).split("\n")
    except OSError:
        return None


def decode(data: bytes) -> str:
    """Text of a config: UTF-8, or UTF-16 by its mark or its zeros; never fails."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    if data[:2].count(0) == 1 and data[2:4].count(0) == 1:
        return data.decode("utf-16-be" if data[0] == 0 else "utf-16-le", "replace")
    return data.decode("utf-8", "replace")


def nearest(word: str, choices: Iterable[str], *, cutoff: float = 0.6) -> str:
    """The most similar choice; empty if none is similar."""
    from difflib import get_close_matches  # rarely used

    return next(iter(get_close_matches(word, list(choices), n=1, cutoff=cutoff)), "")


def suggestion(word: str, choices: Iterable[str], otherwise: str = "") -> str:
    """A hint for an unknown name: the nearest known one, or `otherwise`."""
    near = nearest(word, choices)
    return f"did you mean `{near}`?" if near else otherwise


def wrapped(label: str, text: str, width: int) -> list[str]:
    """A text in lines of this width, indented below its label; paths and commands stay whole."""
    indent = " " * len(label)
    lines = wrap(
        text, width, initial_indent=label, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return lines or [label.rstrip()]


def _place(problem: Problem) -> tuple[str, int]:
    return (problem.location.file, problem.location.line)


# Characters that a terminal obeys or hides: controls, directions of writing, tags; and surrogates.
UNSEEN = re.compile(
    "[\\0-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u061c\\u180e\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f"
    "\\ufeff\\ufff9-\\ufffb\\ud800-\\udfff\\U000e0000-\\U000e007f]"
)


def visible(text: str) -> str:
    """Text that is safe on a terminal: characters that it would obey or hide are spelled (`\\x1b`)."""
    return UNSEEN.sub(lambda match: _spelled(ord(match[0])), text)


def _spelled(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:  # a byte of the name of a file, which is no text
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _cut(text: str, limit: int) -> str:
    printable = visible(text).replace("\n", "\\n").replace("\t", " ")
    return printable if len(printable) <= limit else printable[: limit - 1] + "…"
