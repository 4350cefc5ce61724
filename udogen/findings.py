"""Findings: sentences with their places and hints; collected, then reported together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from textwrap import wrap
from typing import Literal, NamedTuple

from udogen.errors import UdogenError, UnknownName, nearest, open_plain
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


Severity = Literal["error", "warning", "note"]


class Finding(NamedTuple):
    """A sentence about something that was checked: what it is, where, the evidence, and what to do."""

    message: str
    hint: str = ""
    location: Location = Location("")
    severity: Severity = "error"  # `warning`: an error only with --strict
    kind: str = ""  # a short name: `layout`, `rounding`, `heap-in-execute`
    evidence: str = ""
    about: tuple[str, ...] = ()  # in a drafted package: (), (op,) or (op, tensor)

    @property
    def is_error(self) -> bool:
        """Whether what was checked cannot be used."""
        return self.severity == "error"

    def as_json(self) -> dict[str, object]:
        """The finding as `--json` prints it."""
        place = {"file": self.location.file, "line": self.location.line} if self.location.file else {}
        more = {"kind": self.kind, "evidence": self.evidence} if self.kind else {}
        about = {"about": list(self.about)} if self.about else {}
        return {**place, **about, "severity": self.severity, "message": self.message, "hint": self.hint, **more}


class Findings:
    """The collector that readers and rules write to."""

    def __init__(self) -> None:
        self._found: dict[Finding, None] = {}  # a set that keeps order
        self._counts: dict[Severity, int] = {}
        self.contents: dict[str, bytes] = {}  # of the files that were read

    def error(self, location: Location, message: str, hint: str = "") -> None:
        """Add an error; raises ConfigError if there are too many."""
        self._add(Finding(message, hint, location))
        if self._counts["error"] >= _MOST:
            raise ConfigError(self.all(), more=True)

    def warn(self, location: Location, message: str, hint: str = "") -> None:
        """Add a warning: something that works but is probably a mistake."""
        self._add(Finding(message, hint, location, "warning"))

    def _add(self, finding: Finding) -> None:
        self._counts[finding.severity] = self._counts.get(finding.severity, 0) + 1
        if self._counts[finding.severity] <= _MOST:
            self._found[finding] = None

    def extend(self, others: Iterable[Finding]) -> None:
        """Add findings of another collector."""
        self._found.update(dict.fromkeys(others))

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The errors, in the order of the file."""
        return tuple(sorted((p for p in self._found if p.is_error), key=_place))

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The warnings, in the order of the file."""
        return tuple(sorted((p for p in self._found if not p.is_error), key=_place))

    def all(self) -> tuple[Finding, ...]:
        """Errors and warnings, in the order of the file."""
        return tuple(sorted(self._found, key=_place))

    def stop_if_any(self, *, strict: bool = False, what: str = "the config") -> None:
        """Raise with all findings if there is an error, or with `strict` a warning."""
        if self.errors or (strict and self.warnings):
            raise ConfigError(self.all(), strict=strict, what=what)


class ConfigError(UdogenError):
    """A config that cannot be used, with all reasons: `except ConfigError as error: print(*error.findings)`."""

    exit_code = 2
    kind = "config"
    findings: tuple[Finding, ...] = ()

    def __init__(
        self, findings: tuple[Finding, ...], *, strict: bool = False, more: bool = False, what: str = "the config"
    ) -> None:
        errors = [p for p in findings if p.is_error]
        shown = set((errors + [p for p in findings if not p.is_error])[:_MOST_SHOWN])
        self.findings = tuple(p for p in findings if p in shown)
        wrong, doubtful = len(errors), len(findings) - len(errors)
        counts = [many(wrong, "error")] if wrong else []
        counts += [many(doubtful, "warning")] if doubtful else []
        hint = "--strict makes warnings errors" if strict and not wrong else ""
        if len(self.findings) < len(findings):
            hint = f"{len(self.findings)} of them are shown"
        if more:
            hint = "and more: checking ended here"
        super().__init__(" and ".join(counts) + f" in {what}", hint=hint, details=map(line_of, self.findings))

    def as_json(self) -> dict[str, object]:
        """The error as `--json` prints it."""
        return {**super().as_json(), "findings": [p.as_json() for p in self.findings]}


def render(finding: Finding, lines: list[str] | None = None, *, width: int = 0) -> str:
    """`file:line: error: message`, the line (the part of it that fits into a terminal), and the hint."""
    text = [f"{visible(str(finding.location))}: {finding.severity}: {_cut(finding.message, 400)}"]
    number = finding.location.line
    if lines is not None and 0 < number <= len(lines):
        shown = _cut(lines[number - 1].strip(), _SHOWN)
        named = re.search(r"`([^`]+)`", finding.message)
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
    if finding.hint:
        text.append(f"       = {_cut(finding.hint, 400)}")
    return "\n".join(text)


def line_of(finding: Finding) -> str:
    """The finding in one line."""
    return render(finding).replace("\n       = ", "; ")


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


def suggestion(word: str, choices: Iterable[str], otherwise: str = "") -> str:
    """A hint for an unknown name: the nearest known one, or `otherwise`."""
    near = nearest(word, choices)
    return f"did you mean `{near}`?" if near else otherwise


def unknown(lacks: str, name: str, known: Iterable[str]) -> UnknownName:
    """The error for a name that nothing has: `unknown("the model has no graph", "stp", graphs)`."""
    listed = list(known)
    return UnknownName(f"{lacks} `{name}`", hint=suggestion(name, listed, f"it has: {', '.join(listed) or 'none'}"))


def wrapped(label: str, text: str, width: int) -> list[str]:
    """A text in lines of this width, indented below its label; paths and commands stay whole."""
    indent = " " * len(label)
    lines = wrap(
        text, width, initial_indent=label, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return lines or [label.rstrip()]


def _place(finding: Finding) -> tuple[str, int]:
    return (finding.location.file, finding.location.line)


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
