"""Explains error numbers, their names, and logs, with the tables of `udogen.error_tables`."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple

from udogen import error_tables
from udogen.error_tables import INTERFACES, ErrorCause, describe, interface, log_lines, printed_numbers
from udogen.errors import UsageError, nearest, open_plain, reading
from udogen.findings import wrapped
from udogen.tables import many

DSP_OFFSET = 0x80000400  # a number returned by a DSP is its ARM counterpart plus this
_DSP_SPAN = 0x300
_SNPE_SHIFT = 1000  # SNPE's numbers from 2000 to 17000 are QNN's numbers plus this
_SNPE_PREFIX = "SNPE_ERRORCODE_"


class ErrorMeaning(NamedTuple):
    """An error as one interface defines it, or a known line of a log; its most likely causes first."""

    interface: str  # one of INTERFACES; empty for a line
    code: int
    name: str
    meaning: str
    causes: tuple[ErrorCause, ...] = ()
    same: str = ""  # the same error in another interface
    harmless: bool = False

    @property
    def key(self) -> str:
        """Lines with equal keys have the same meaning."""
        return f"{self.interface} {self.code}" if self.interface else self.name

    @property
    def title(self) -> str:
        """`4005 QNN_…`, or the name of a kind of line."""
        return f"{self.shown_code} {self.name}" if self.interface else self.name

    @property
    def shown_code(self) -> str:
        """The number as its interface prints it."""
        return f"{self.code:#x}" if self.interface in ("dsp", "executorch") else str(self.code)


# --- numbers and names ----------------------------------------------------------------------------------


def explain_error(text: str) -> tuple[ErrorMeaning, ...]:
    """Every meaning of a number (3110, 0x80000406, -2147482618) or a name, the most likely first."""
    if meanings := tuple(_meanings(text)):
        return meanings
    code = parse_number(text)
    raise _unknown_name(text) if code is None else _unknown_number(text, code)


def _meanings(text: str, *, of: str = "") -> Iterator[ErrorMeaning]:
    code = parse_number(text)
    yield from _named(text, of) if code is None else meanings_of(code, of=of)


def parse_number(text: str) -> int | None:
    """A number as 32 bits, printed as decimal, hexadecimal, negative, or sign-extended to 64 bits; None for a name."""
    word = text.strip().rstrip("uUlL") if re.match(r"\s*[+-]?\d", text) else text.strip()
    if re.fullmatch(r"[+-]?\d+", word) and not re.fullmatch(r"8000[0-9]{4}", word):
        value = int(word)
    elif match := re.fullmatch(r"([+-]?)0[xX]([0-9a-fA-F]+)", word):
        value = int(match[1] + match[2], 16)
    elif re.fullmatch(r"8000[0-9a-fA-F]{4}", word):  # from FastRPC, without 0x
        value = int(word, 16)
    else:
        return None
    if value < 0:
        value &= 0xFFFFFFFF if value >= -(1 << 31) else (1 << 64) - 1
    if value >> 32 == 0xFFFFFFFF:
        value &= 0xFFFFFFFF
    return value


def meanings_of(code: int, *, of: str = "") -> Iterator[ErrorMeaning]:
    """The meanings of a number in one interface, or in all."""
    by_code, _ = _table()
    for name in [of] if of else INTERFACES:
        if meaning := by_code.get((name, code)) or _unlisted(name, code):
            yield meaning


def _unlisted(name: str, code: int) -> ErrorMeaning | None:
    """The meaning of a number with a detail of the backend from bit 16 upward, or of the DSP without a name."""
    rest = code - DSP_OFFSET
    if name == "dsp" and 0 < rest < _DSP_SPAN:
        unnamed, same = f"DSP_AEE_EOFFSET + 0x{rest:03x}", f"0x{rest:x} of AEEStdErr.h"
        return ErrorMeaning("dsp", code, unnamed, "an error of the DSP without a name", same=same)
    meaning = _table()[0].get((name, code & 0xFFFF))
    if name != "qnn" or rest >= 0 or meaning is None:
        return None
    return meaning._replace(same=f"{meaning.code}, with a detail of the backend in the upper bits: {code >> 16:#x}")


@cache
def _table() -> tuple[Mapping[tuple[str, int], ErrorMeaning], Mapping[str, ErrorMeaning]]:
    """Every error by interface and number, and by name."""
    by_code: dict[tuple[str, int], ErrorMeaning] = {}
    by_name: dict[str, ErrorMeaning] = {}
    for name in INTERFACES:
        for row in interface(name).codes:
            causes = row.causes or ((ErrorCause("", row.remedy, ""),) if row.remedy else ())
            meaning = ErrorMeaning(name, row.code, row.name, row.meaning, causes)
            by_code[name, row.code] = meaning
            aliases = row.aliases
            if name == "dsp" and row.offset:
                same = f"0x{row.code:x} of AEEStdErr.h"
                meaning = meaning._replace(code=DSP_OFFSET + row.code, same=same)
                by_code[name, meaning.code] = meaning
                aliases = (*aliases, f"DSP_{row.name}")
            by_name |= dict.fromkeys((row.name, *aliases), meaning)
    for row in interface("qnn").codes:
        if 1000 <= row.code < 17000 - _SNPE_SHIFT:
            code, known = row.code + _SNPE_SHIFT, f"{_SNPE_PREFIX}{row.name}"
            meaning = ErrorMeaning("snpe", code, known, row.meaning, row.causes, f"{row.code} of QNN")
            by_name.setdefault(known, by_code.setdefault(("snpe", code), meaning))
    return by_code, by_name


def _named(text: str, of: str) -> Iterator[ErrorMeaning]:
    word = text.strip().upper()
    for name, meaning in _table()[1].items():
        if name.upper() == word and of in ("", meaning.interface):
            yield meaning
            return


def _unknown_number(text: str, code: int) -> UsageError:
    near = min(filter(None, interface("qnn").by_code), key=lambda known: abs(known - code))
    hint = (
        f"the nearest number of QNN is {near} ({describe(near).name})"
        if abs(near - code) < 1000
        else "numbers of QNN are 1000 to 15000 and 30000, of a DSP 0x80000401 to 0x80000601; is it truncated?"
    )
    return UsageError(f"{text} is not a known error number", hint=hint)


def _unknown_name(text: str) -> UsageError:
    if "/" in text or re.search(r"\.(log|txt|out)$", text):
        return UsageError(f"{text} does not exist", hint="give a log file, an error number or its name")
    word = text.strip().upper()
    parts = [name for name in _table()[1] if word and name.upper().endswith(word)]
    near = parts[:3] or [name for name in [nearest(word, _table()[1], cutoff=0.5)] if name]
    hint = (
        f"did you mean {' or '.join(near)}?" if near else "give a number, a name such as QNN_…_ERROR_…, or a log file"
    )
    return UsageError(f"`{text}` is not a known error", hint=hint)


# --- logs -----------------------------------------------------------------------------------------------

LOG_TABLES = ("qnn", "ort", "executorch")  # files of data/log_lines, in the order in which they are tried
_LONGEST = 8192  # characters of a line; longer ones are not messages
_LOOKAHEAD = 24  # following lines that may belong to the same message
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class LogEntry:
    """A known line of a log."""

    line: int
    text: str
    what: ErrorMeaning
    again: tuple[int, ...] = ()  # further lines with the same meaning


@dataclass(frozen=True)
class ExplainedLog:
    """The known lines of a log, each meaning once, in the order of the file."""

    path: Path
    lines: int
    entries: tuple[LogEntry, ...]


def explain_log(path: Path) -> ExplainedLog:
    """Read a log; an error if it cannot be read, is binary, or has no known line."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder", hint="give a log file")
    with reading(path, hint="give a log file"), open_plain(path, streams=True) as stream:
        entries, count = _read_log(path, stream)
    if not entries:
        raise UsageError(
            f"{path}: none of its {count} lines is known to udogen",
            hint="log more: --log_level verbose (qnn-net-run), log_severity_level=0 (ONNX Runtime), "
            "logcat of the whole device (the DSP logs as adsprpc)",
        )
    return ExplainedLog(path, count, entries)


def _read_log(path: Path, stream: BufferedReader) -> tuple[tuple[LogEntry, ...], int]:
    entries: dict[str, LogEntry] = {}
    lines = list(_lines(path, stream))
    for number, text in enumerate(lines, 1):
        for what in explain_line(text, lines[number : number + _LOOKAHEAD]):
            if (entry := entries.get(what.key)) is None:
                entries[what.key] = LogEntry(number, text.strip()[:200], what)
            else:
                entries[what.key] = replace(entry, again=(*entry.again, number))
    return tuple(entries.values()), len(lines)


def explain_line(text: str, after: Sequence[str] = ()) -> Iterator[ErrorMeaning]:
    """The meanings of one line; `after` are the lines that follow it."""
    for row in log_lines("harmless"):
        if row.pattern.search(text):
            yield ErrorMeaning("", 0, row.id, row.meaning, harmless=True)
            return
    for row in log_lines(*LOG_TABLES):
        if match := row.pattern.search(text):
            groups = {name: value or "it" for name, value in match.groupdict().items()}
            yield ErrorMeaning("", 0, row.id, row.meaning.format(**groups), row.causes)
            break
    else:
        yield from _of_runtime(text, after)
    yield from _numbers_in(text)


def _of_runtime(text: str, after: Sequence[str]) -> Iterator[ErrorMeaning]:
    if error_tables.explain_log("the op", text):
        found = error_tables.explain_log("the op", "\n".join([text, *after]))
        assert found is not None
        cause = ErrorCause("", found.hint, found.cause.source)
        yield ErrorMeaning("", 0, f"runtime-{found.id}", found.sentence, (cause,))


def _numbers_in(text: str) -> Iterator[ErrorMeaning]:
    seen: set[str] = set()
    for row in printed_numbers():
        for match in row.pattern.finditer(text):
            meaning = next(_meanings(match["code"], of=row.interface), None)  # none: a size, the number of a line
            if meaning and meaning.code and match["code"] not in seen:
                seen.add(match["code"])
                yield meaning


def _lines(path: Path, stream: BufferedReader) -> Iterator[str]:
    """The lines of a log in UTF-8 or UTF-16 (from Windows shells), each cut after _LONGEST characters."""
    encoding = "utf-16" if stream.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8"
    text = TextIOWrapper(stream, encoding, "replace", newline="\n")
    while line := text.readline(_LONGEST):
        if encoding == "utf-8" and "\0" in line:
            raise UsageError(f"{path} is not a log but binary data", hint="`udogen inspect` shows what a file is")
        yield _COLOURS.sub("", line.rstrip("\r\n"))
        while line and not line.endswith("\n"):
            line = text.readline(_LONGEST)


# --- as text and as plain data --------------------------------------------------------------------------

_NARROWEST = 60  # columns


def error_text(text: str, meanings: Sequence[ErrorMeaning], *, width: int) -> str:
    """The first meaning in full, then the other ones."""
    width = max(width, _NARROWEST)
    lines: list[str] = []
    for meaning in meanings:
        same = f", {meaning.same}" if meaning.same else ""
        title = f"{meaning.name} ({interface(meaning.interface).title} {meaning.shown_code}{same})"
        if not lines:
            lines += [f"{text}: {title}", *wrapped("  ", meaning.meaning, width)]
        else:
            lines += ["", *wrapped("", f"or {title}: {meaning.meaning}", width)]
        lines += _cause_lines(meaning.causes, width)
    return "\n".join(lines)


def log_text(log: ExplainedLog, *, width: int) -> str:
    """Every entry with its line; each cause once."""
    width = max(width, _NARROWEST)
    lines: list[str] = []
    shown: set[ErrorCause] = set()
    for entry in log.entries:
        what = entry.what
        lines += [f"line {entry.line}: {entry.text}", *wrapped("  ", f"{what.title}: {what.meaning}", width)]
        if entry.again:
            lines += wrapped("  ", f"again in {_numbered_lines(entry.again)}", width)
        lines += _cause_lines([cause for cause in what.causes if cause not in shown], width)
        if not shown.isdisjoint(what.causes):
            lines += wrapped("  = ", "see the causes above", width)
        shown.update(what.causes)
        lines.append("")
    harmful = sum(not entry.what.harmless for entry in log.entries)
    count = many(harmful, "known error") if harmful else "no known error"
    first = "; read from the top: the first one is usually the cause of the others" if harmful > 1 else ""
    lines.append(f"{log.lines} lines, {count}{first}")
    return "\n".join(lines)


def _numbered_lines(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:8]))
    return f"line{'s' if len(numbers) > 1 else ''} {shown}" + (" …" if len(numbers) > 8 else "")


def _cause_lines(causes: Sequence[ErrorCause], width: int) -> Iterator[str]:
    for number, cause in enumerate(causes, 1):
        label = f"  {number}. " if len(causes) > 1 else "  - "
        if cause.text:
            source = f" ({cause.source})" if cause.source else ""
            yield from wrapped(label, cause.text + source, width)
            yield from wrapped(" " * len(label) + "= ", cause.remedy, width)
        else:
            yield from wrapped("  = ", cause.remedy, width)


def error_json(text: str, meanings: Sequence[ErrorMeaning]) -> dict[str, Any]:
    """The meanings of a number or a name as plain data."""
    return {"asked": text, "readings": [_meaning_json(meaning) for meaning in meanings]}


def _meaning_json(meaning: ErrorMeaning) -> dict[str, Any]:
    table = interface(meaning.interface) if meaning.interface else None
    return {
        **meaning._asdict(),
        "title": meaning.title,
        "taken_from": table.source if table else "",
        "causes": [cause._asdict() for cause in meaning.causes],
    }


def log_json(log: ExplainedLog) -> dict[str, Any]:
    """A log as plain data."""
    found = [
        {
            "line": entry.line,
            "again": entry.again,
            "text": entry.text,
            **_meaning_json(entry.what),
        }
        for entry in log.entries
    ]
    return {"asked": str(log.path), "lines": log.lines, "found": found}
