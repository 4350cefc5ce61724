"""Explains error numbers, their names, and logs, with the tables of `udogen.error_tables`."""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from io import BufferedReader, TextIOWrapper
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, NamedTuple

from udogen.error_tables import INTERFACES, ErrorCause, ErrorCode, describe, interface, log_lines, printed_numbers
from udogen.errors import UsageError, open_plain, reading
from udogen.opdef.problems import nearest, wrapped
from udogen.runtime import log_messages
from udogen.tables import many

DSP_OFFSET = 0x80000400  # a number returned by a DSP is its ARM counterpart plus this
_DSP_SPAN = 0x300
_SNPE_SHIFT = 1000  # SNPE's numbers from 2000 to 17000 are QNN's numbers plus this
_SNPE_PREFIX = "SNPE_ERRORCODE_"


class ErrorMeaning(NamedTuple):
    """An error as one interface defines it, with its most likely causes first."""

    interface: str  # one of INTERFACES
    code: int
    name: str
    meaning: str
    causes: tuple[ErrorCause, ...] = ()
    same: str = ""  # the same error in another interface

    @property
    def shown_code(self) -> str:
        """The number as its interface prints it."""
        return f"{self.code:#x}" if self.interface in ("dsp", "executorch") else str(self.code)


# --- numbers and names ----------------------------------------------------------------------------------

# The first number of each part of QNN, to locate numbers that have no name.
_RANGES = (
    (1000, "common to all parts"),
    (2000, "properties"),
    (3000, "op packages"),
    (4000, "backends"),
    (5000, "contexts"),
    (6000, "graphs"),
    (7000, "tensors"),
    (8000, "memory"),
    (9000, "signals"),
    (10000, "errors"),
    (11000, "logs"),
    (12000, "profiles"),
    (13000, "power settings"),
    (14000, "devices"),
    (15000, "process-wide options"),
    (30000, "libQnnSystem"),
    (60000, "the interface"),
)


def explain_error(text: str, *, of: str = "") -> tuple[ErrorMeaning, ...]:
    """Every meaning of a number (3110, 0x80000406, -2147482618) or a name, the most likely first."""
    code = parse_number(text)
    found = tuple(meanings_of(code, of=of)) if code is not None else tuple(_named(text, of))
    if found:
        return found
    if code is not None:
        raise _unknown_number(text, code, of)
    raise _unknown_name(text)


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
    for name in [of] if of else INTERFACES:
        meaning = _READERS.get(name, partial(_in_table, name))(code)
        if meaning is not None:
            yield meaning


def _in_table(name: str, code: int) -> ErrorMeaning | None:
    row = interface(name).by_code.get(code)
    return ErrorMeaning(name, code, row.name, row.meaning, row.causes) if row else None


def _qnn(code: int) -> ErrorMeaning | None:
    # A backend may add a detail from bit 16 upward; numbers from a DSP have no such detail.
    row = describe(code)
    if row.name.startswith("UNKNOWN") or (row.code != code and code >= DSP_OFFSET):
        return None
    causes = row.causes or ((ErrorCause("", row.remedy, ""),) if row.remedy else ())
    detail = f"{row.code}, with a detail of the backend above it: {code >> 16:#x}" if row.code != code else ""
    return ErrorMeaning("qnn", row.code, row.name, row.meaning, causes, detail)


def _dsp(code: int) -> ErrorMeaning | None:
    rest = code - DSP_OFFSET
    if not 0 < rest < _DSP_SPAN:
        return _in_table("dsp", code)
    row = next((row for row in interface("dsp").codes if row.offset and row.code == rest), None)
    if row is None:
        row = ErrorCode(rest, f"DSP_AEE_EOFFSET + 0x{rest:03x}", "an error of the DSP without a name")
    return ErrorMeaning("dsp", code, row.name, row.meaning, row.causes, f"0x{rest:x} of AEEStdErr.h")


def _snpe(code: int) -> ErrorMeaning | None:
    if code in interface("snpe").by_code:
        return _in_table("snpe", code)
    inner = code - _SNPE_SHIFT
    row = interface("qnn").by_code.get(inner) if 2000 <= code < 17000 else None
    if row is None:
        return None
    return ErrorMeaning("snpe", code, _SNPE_PREFIX + row.name, row.meaning, row.causes, f"{inner} of QNN")


_READERS: Mapping[str, Callable[[int], ErrorMeaning | None]] = {"qnn": _qnn, "dsp": _dsp, "snpe": _snpe}


@cache
def names() -> Mapping[str, tuple[str, int]]:
    """Every name of an error -> (interface, number)."""
    found: dict[str, tuple[str, int]] = {}
    for each in INTERFACES:
        for row in interface(each).codes:
            for name in (row.name, *row.aliases):
                found[name] = (each, row.code)
    for row in interface("dsp").codes:
        if row.offset:
            found[row.name] = found[f"DSP_{row.name}"] = ("dsp", DSP_OFFSET + row.code)
    for row in interface("qnn").codes:
        if row.code >= 1000:
            found.setdefault(_SNPE_PREFIX + row.name, ("snpe", row.code + _SNPE_SHIFT))
    return found


def _named(text: str, of: str) -> Iterator[ErrorMeaning]:
    word = text.strip().upper()
    for name, (owner, code) in names().items():
        if name.upper() == word and of in ("", owner):
            yield from meanings_of(code, of=owner)
            return


def _unknown_number(text: str, code: int, of: str) -> UsageError:
    where = f" of {interface(of).title}" if of else ""
    part = next((f"{low} to {low + 999}: {what}" for low, what in _RANGES if low <= code < low + 1000), "")
    near = min(filter(None, interface("qnn").by_code), key=lambda each: abs(each - code))
    hint = f"QNN's numbers {part}; the nearest is {near} ({describe(near).name})" if part else (
        "numbers of QNN are 1000 to 15000 and 30000, of a DSP 0x80000401 to 0x80000601; is it truncated?"
    )  # fmt: skip
    return UsageError(f"{text} is not a known error number{where}", hint=hint)


def _unknown_name(text: str) -> UsageError:
    if "/" in text or re.search(r"\.(log|txt|out)$", text):
        return UsageError(f"{text} does not exist", hint="give a log file, an error number or its name")
    word = text.strip().upper()
    parts = [name for name in names() if word and name.upper().endswith(word)]
    near = parts[:3] or [name for name in [nearest(word, names(), cutoff=0.5)] if name]
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
class LineMeaning:
    """What one line of a log means."""

    key: str  # lines with equal keys have the same meaning
    title: str  # `4005 QNN_…`, or the name of a kind of line
    meaning: str
    causes: tuple[ErrorCause, ...]
    harmless: bool = False


@dataclass(frozen=True)
class LogEntry:
    """A known line of a log."""

    line: int
    text: str
    what: LineMeaning
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
    found: dict[str, LogEntry] = {}
    number = 0
    for number, text, after in _with_lookahead(_lines(path, stream)):
        for what in explain_line(text, after):
            if (entry := found.get(what.key)) is None:
                found[what.key] = LogEntry(number, text.strip()[:200], what)
            else:
                found[what.key] = replace(entry, again=(*entry.again, number))
    return tuple(found.values()), number


def _with_lookahead(lines: Iterator[str]) -> Iterator[tuple[int, str, list[str]]]:
    """(number, line, the lines after it)."""
    window: deque[str | None] = deque(maxlen=_LOOKAHEAD + 1)
    for number, text in enumerate(chain(lines, repeat(None, _LOOKAHEAD)), 1 - _LOOKAHEAD):
        window.append(text)
        if number > 0 and (first := window[0]) is not None:
            yield number, first, [each for each in islice(window, 1, None) if each is not None]


def explain_line(text: str, after: Sequence[str] = ()) -> Iterator[LineMeaning]:
    """The meanings of one line; `after` are the lines that follow it."""
    for row in log_lines("harmless"):
        if row.pattern.search(text):
            yield LineMeaning(row.id, row.id, row.meaning, (), harmless=True)
            return
    for row in log_lines(*LOG_TABLES):
        if match := row.pattern.search(text):
            groups = {name: value or "it" for name, value in match.groupdict().items()}
            yield LineMeaning(row.id, row.id, row.meaning.format(**groups), row.causes)
            break
    else:
        yield from _of_runtime(text, after)
    yield from _numbers_in(text)


def _of_runtime(text: str, after: Sequence[str]) -> Iterator[LineMeaning]:
    if log_messages.explain("the op", text):
        found = log_messages.explain("the op", "\n".join([text, *after]))
        assert found is not None
        cause = ErrorCause("", found.hint, found.cause.source)
        yield LineMeaning(f"runtime-{found.id}", "the runtime", found.sentence, (cause,))


def _numbers_in(text: str) -> Iterator[LineMeaning]:
    seen: set[str] = set()
    for row in printed_numbers():
        for match in row.pattern.finditer(text):
            try:
                meaning, *_ = explain_error(match["code"], of=row.interface)
            except UsageError:  # not an error number: the number of a line, a size
                continue
            if meaning.code and match["code"] not in seen:
                seen.add(match["code"])
                title = f"{meaning.shown_code} {meaning.name}"
                yield LineMeaning(f"{meaning.interface} {meaning.code}", title, meaning.meaning, meaning.causes)


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
    first, *others = meanings
    found = [f"{text}: {_title(first)}", *wrapped("  ", first.meaning, width), *_cause_lines(first.causes, width)]
    for other in others:
        found += ["", *wrapped("", f"or {_title(other)}: {other.meaning}", width), *_cause_lines(other.causes, width)]
    return "\n".join(found)


def _title(meaning: ErrorMeaning) -> str:
    same = f", {meaning.same}" if meaning.same else ""
    return f"{meaning.name} ({interface(meaning.interface).title} {meaning.shown_code}{same})"


def log_text(log: ExplainedLog, *, width: int) -> str:
    """Every entry with its line; each cause once."""
    width = max(width, _NARROWEST)
    found = []
    first_lines: dict[ErrorCause, int] = {}
    for entry in log.entries:
        what = entry.what
        found += [f"line {entry.line}: {entry.text}", *wrapped("  ", f"{what.title}: {what.meaning}", width)]
        if entry.again:
            found += wrapped("  ", f"again in {_numbered_lines(entry.again)}", width)
        new = [cause for cause in what.causes if cause not in first_lines]
        before = sorted({first_lines[cause] for cause in what.causes if cause in first_lines})
        found += _cause_lines(new, width)
        if before:
            found += wrapped("  = ", f"{'also, ' if new else ''}see {_numbered_lines(before)}", width)
        first_lines.update(dict.fromkeys(new, entry.line))
        found.append("")
    harmful = sum(not entry.what.harmless for entry in log.entries)
    found.append(f"{log.lines} lines, {_count(harmful)}")
    return "\n".join(found)


def _count(number: int) -> str:
    if not number:
        return "no known error"
    text = many(number, "known error")
    return text + ("; read from the top: the first one is usually the cause of the others" if number > 1 else "")


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
    readings = [
        {
            "family": each.interface,
            "title": interface(each.interface).title,
            "taken_from": interface(each.interface).source,
            "code": each.code,
            "name": each.name,
            "meaning": each.meaning,
            "same": each.same or None,
            "causes": _causes_json(each.causes),
        }
        for each in meanings
    ]
    return {"asked": text, "readings": readings}


def log_json(log: ExplainedLog) -> dict[str, Any]:
    """A log as plain data."""
    found = [
        {
            "line": each.line,
            "again": list(each.again),
            "text": each.text,
            "title": each.what.title,
            "meaning": each.what.meaning,
            "harmless": each.what.harmless,
            "causes": _causes_json(each.what.causes),
        }
        for each in log.entries
    ]
    return {"asked": str(log.path), "lines": log.lines, "found": found}


def _causes_json(causes: Sequence[ErrorCause]) -> list[dict[str, str]]:
    return [{"cause": each.text, "remedy": each.remedy, "source": each.source} for each in causes]
