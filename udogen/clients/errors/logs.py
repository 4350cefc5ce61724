"""A log file -> what is known of its lines, each thing once, in the order of the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

from udogen.clients import explain
from udogen.clients.explain import ErrorMeaning
from udogen.error_tables import ErrorCause, log_lines, printed_numbers
from udogen.errors import UsageError, open_plain
from udogen.runtime import log_messages

LINES = ("qnn", "ort", "executorch")  # files of log_lines, in the order in which they are tried
_LONGEST = 8192  # of a line; what is longer is no message
_AHEAD = 24  # lines after one that may belong to it
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_NEWLINES = {"utf-16-le": b"\n\x00", "utf-16-be": b"\x00\n"}


@dataclass(frozen=True)
class Found:
    """Something known that a log says."""

    line: int
    said: str
    title: str  # what identifies it: `4005 QNN_…`, or the name of a kind of line
    meaning: str
    causes: tuple[ErrorCause, ...]
    harmless: bool = False
    again: tuple[int, ...] = ()  # further lines that say the same


class Known(NamedTuple):
    """What one line says, before what was said already is left out."""

    key: str
    title: str
    meaning: str
    causes: tuple[ErrorCause, ...]
    harmless: bool = False


@dataclass(frozen=True)
class Explained:
    """A log that was read."""

    path: Path
    lines: int
    found: tuple[Found, ...]


def explain_log(path: Path) -> Explained:
    """Read a log; an error where it cannot be read, is none, or says nothing that is known."""
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a folder", hint="give a log file")
        with open_plain(path, streams=True) as stream:
            found, count = _read(path, stream)
    except OSError as fault:
        raise UsageError(f"{path} cannot be read: {fault.strerror}", hint="give a log file") from fault
    if not found:
        raise UsageError(
            f"{path}: none of its {count} lines is known to udogen",
            hint="log more: --log_level verbose (qnn-net-run), log_severity_level=0 (ONNX Runtime), "
            "logcat of the whole device (the DSP logs as adsprpc)",
        )
    return Explained(path, count, tuple(found))


def _read(path: Path, stream: BufferedReader) -> tuple[list[Found], int]:
    found: dict[str, Found] = {}
    window: list[str] = []
    count = 0
    for text in _texts(path, stream):
        window.append(text)
        if len(window) > _AHEAD:
            count += 1
            _take(found, count, window)
            window.pop(0)
    while window:
        count += 1
        _take(found, count, window)
        window.pop(0)
    return list(found.values()), count


def _take(found: dict[str, Found], number: int, window: list[str]) -> None:
    """Add what the first line of the window says."""
    for each in said(window[0], window[1:]):
        if each.key in found:
            before = found[each.key]
            found[each.key] = Found(**{**vars(before), "again": (*before.again, number)})
        else:
            shown = window[0].strip()[:200]
            found[each.key] = Found(number, shown, each.title, each.meaning, each.causes, each.harmless)


def said(text: str, after: list[str]) -> Iterator[Known]:
    """Everything known of one line; `after` are those that follow it."""
    for row in log_lines("harmless"):
        if row.pattern.search(text):
            yield Known(row.id, row.id, row.meaning, (), harmless=True)
            return
    for row in log_lines(*LINES):
        if match := row.pattern.search(text):
            groups = {name: value or "it" for name, value in match.groupdict().items()}
            yield Known(row.id, row.id, row.meaning.format(**groups), row.causes)
            break
    else:
        yield from _said_by_runtime(text, after)
    yield from _numbers(text)


def _said_by_runtime(text: str, after: list[str]) -> Iterator[Known]:
    if log_messages.explain("the op", text):
        found = log_messages.explain("the op", "\n".join([text, *after]))
        assert found is not None
        yield Known(
            f"runtime-{found.id}", "the runtime", found.sentence, (ErrorCause("", found.hint, found.cause.source),)
        )


def _numbers(text: str) -> Iterator[Known]:
    seen: set[str] = set()
    for row in printed_numbers():
        for match in row.pattern.finditer(text):
            reading = _reading(match["code"], row.interface)
            if reading is None or reading.code == 0 or match["code"] in seen:
                continue
            seen.add(match["code"])
            title = f"{shown(reading)} {reading.name}"
            yield Known(f"{reading.interface} {reading.code}", title, reading.meaning, reading.causes)


def _reading(text: str, of: str) -> ErrorMeaning | None:
    try:
        return next(iter(explain.explain_error(text, of=of)), None)
    except UsageError:  # a number that is something else: a line, a size
        return None


def shown(reading: ErrorMeaning) -> str:
    """A number as its interface prints it."""
    return f"{reading.code:#x}" if reading.interface in ("dsp", "executorch") else str(reading.code)


def _texts(path: Path, stream: BufferedReader) -> Iterator[str]:
    """The lines of a log, whatever it is written in; the shell of Windows writes UTF-16."""
    encoding = _UTF16.get(stream.peek(2)[:2], "utf-8")
    if encoding != "utf-8":
        stream.read(2)
    for raw in _raw_lines(stream, _NEWLINES.get(encoding, b"\n")):
        if encoding == "utf-8" and b"\0" in raw:
            raise UsageError(f"{path} is no log: it holds binary data", hint="`udogen inspect` tells what a file is")
        yield _COLOURS.sub("", raw.decode(encoding, "replace").rstrip("\r\n"))


def _raw_lines(stream: BufferedReader, newline: bytes) -> Iterator[bytes]:
    """Lines, none of them longer than _LONGEST: a file of one line must not fill the memory."""
    if newline == b"\n":
        while raw := stream.readline(_LONGEST):
            yield raw
            while raw and not raw.endswith(b"\n"):  # the rest of a line that is too long
                raw = stream.readline(_LONGEST)
        return
    rest = b""
    while block := stream.read(1 << 16):
        *whole, rest = (rest + block).split(newline) if len(block) % 2 == 0 else [rest + block]
        yield from (each[:_LONGEST] for each in whole)
        rest = rest[: 1 << 20]
    if rest:
        yield rest[:_LONGEST]
