"""What is known of errors, as text and as plain data."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from udogen.clients.errors.decode import Reading
from udogen.clients.errors.logs import Explained, Found, shown
from udogen.error_tables import Cause, interface


def readings_text(text: str, readings: Sequence[Reading], *, width: int) -> str:
    """The first reading in full, and after it what else the number may be."""
    first, *others = readings
    found = [f"{text}: {_title(first)}", *_wrapped("  ", first.meaning, width), *_causes(first.causes, width)]
    for other in others:
        found += ["", *_wrapped("", f"or {_title(other)}: {other.meaning}", width), *_causes(other.causes, width)]
    return "\n".join(found)


def _title(reading: Reading) -> str:
    same = f", {reading.same}" if reading.same else ""
    return f"{reading.name} ({interface(reading.interface).title} {shown(reading)}{same})"


def log_text(explained: Explained, *, width: int) -> str:
    """Every thing that a log says, with its line; a cause that was told is not told again."""
    found = []
    told: dict[Cause, int] = {}
    for each in explained.found:
        found += [f"line {each.line}: {each.said}", *_wrapped("  ", f"{each.title}: {each.meaning}", width)]
        if each.again:
            found += _wrapped("  ", f"again in {_lines(each.again)}", width)
        new = [cause for cause in each.causes if cause not in told]
        before = sorted({told[cause] for cause in each.causes if cause in told})
        found += _causes(new, width)
        if before:
            found += _wrapped("  = ", f"{'also, ' if new else ''}see {_lines(before)}", width)
        told.update(dict.fromkeys(new, each.line))
        found.append("")
    harmful = sum(not each.harmless for each in explained.found)
    found.append(f"{explained.lines} lines, {_count(harmful)}")
    return "\n".join(found)


def _count(number: int) -> str:
    if not number:
        return "no error that is known"
    things = f"{number} {'thing' if number == 1 else 'things'} known"
    return things + ("; read from the top: what comes first is mostly the cause of the rest" if number > 1 else "")


def _lines(numbers: Sequence[int]) -> str:
    shown_numbers = ", ".join(map(str, numbers[:8]))
    return f"line{'s' if len(numbers) > 1 else ''} {shown_numbers}" + (" …" if len(numbers) > 8 else "")


def _causes(causes: Sequence[Cause], width: int) -> Iterator[str]:
    for number, cause in enumerate(causes, 1):
        label = f"  {number}. " if len(causes) > 1 else "  - "
        if cause.text:
            source = f" ({cause.source})" if cause.source else ""
            yield from _wrapped(label, cause.text + source, width)
            yield from _wrapped(" " * (len(label)) + "= ", cause.remedy, width)
        else:
            yield from _wrapped("  = ", cause.remedy, width)


def _wrapped(label: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text, max(width, 60), initial_indent=label, subsequent_indent=" " * len(label),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def readings_json(text: str, readings: Sequence[Reading]) -> dict[str, Any]:
    """A number or a name, as plain data."""
    return {"asked": text, "readings": [_reading_json(each) for each in readings]}


def _reading_json(reading: Reading) -> dict[str, Any]:
    of = interface(reading.interface)
    return {
        "family": of.name,
        "title": of.title,
        "taken_from": of.source,
        "code": reading.code,
        "name": reading.name,
        "meaning": reading.meaning,
        "same": reading.same or None,
        "causes": _causes_json(reading.causes),
    }


def log_json(explained: Explained) -> dict[str, Any]:
    """A log, as plain data."""
    return {
        "asked": str(explained.path),
        "lines": explained.lines,
        "found": [_found_json(each) for each in explained.found],
    }


def _found_json(found: Found) -> dict[str, Any]:
    return {
        "line": found.line,
        "again": list(found.again),
        "said": found.said,
        "title": found.title,
        "meaning": found.meaning,
        "harmless": found.harmless,
        "causes": _causes_json(found.causes),
    }


def _causes_json(causes: Sequence[Cause]) -> list[dict[str, str]]:
    return [{"cause": each.text, "remedy": each.remedy, "source": each.source} for each in causes]
