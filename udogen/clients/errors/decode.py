"""A number or a name -> what it is, in every interface that has it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import NamedTuple

from udogen.error_tables import INTERFACES, Cause, ErrorCode, describe, interface
from udogen.errors import UsageError
from udogen.opdef.problems import nearest

DSP_OFFSET = 0x80000400  # what a DSP returns is so much more than what the side of ARM returns
_DSP_SPAN = 0x300
_SNPE_SHIFT = 1000  # numbers of SNPE from 2000 to 17000 are QNN's, shifted
_SNPE_PREFIX = "SNPE_ERRORCODE_"


class Reading(NamedTuple):
    """An error as one interface defines it; causes in the order of their likelihood."""

    interface: str  # one of INTERFACES
    code: int
    name: str
    meaning: str
    causes: tuple[Cause, ...] = ()
    same: str = ""  # the number it is elsewhere, where it is one of another interface in disguise


# What parts of QNN own which numbers, for who asks for one that is not there.
_RANGES = (
    (1000, "what all parts share"),
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
    (15000, "options for the whole process"),
    (30000, "libQnnSystem"),
    (60000, "the interface"),
)


def explain(text: str, *, of: str = "") -> tuple[Reading, ...]:
    """Every reading of a number (3110, 0x80000406, -2147482618) or a name; the likeliest first."""
    code = number(text)
    found = tuple(read(code, of=of)) if code is not None else tuple(_named(text, of))
    if found:
        return found
    if code is not None:
        raise _unknown_number(text, code, of)
    raise _unknown_name(text)


def number(text: str) -> int | None:
    """A number as its 32 bits, however it was printed: decimal, hexadecimal, negative, or widened to 64 bits."""
    word = text.strip().rstrip("uUlL") if re.match(r"\s*[+-]?\d", text) else text.strip()
    if re.fullmatch(r"[+-]?\d+", word) and not re.fullmatch(r"8000[0-9]{4}", word):
        value = int(word)
    elif match := re.fullmatch(r"([+-]?)0[xX]([0-9a-fA-F]+)", word):
        value = int(match[1] + match[2], 16)
    elif re.fullmatch(r"8000[0-9a-fA-F]{4}", word):  # of FastRPC, without its 0x
        value = int(word, 16)
    else:
        return None
    if value < 0:
        value &= 0xFFFFFFFF if value >= -(1 << 31) else (1 << 64) - 1
    if value >> 32 == 0xFFFFFFFF:  # a negative number of 32 bits that became one of 64
        value &= 0xFFFFFFFF
    return value


def read(code: int, *, of: str = "") -> Iterator[Reading]:
    """The readings of a number, in one interface or in all of them."""
    for name in [of] if of else INTERFACES:
        reading = _READERS.get(name, partial(_plain, name))(code)
        if reading is not None:
            yield reading


def _plain(name: str, code: int) -> Reading | None:
    row = interface(name).by_code.get(code)
    return Reading(name, code, row.name, row.meaning, row.causes) if row else None


def _qnn(code: int) -> Reading | None:
    # A detail of the backend may be above bit 16; an offset of FastRPC is none.
    row = describe(code)
    if row.name.startswith("UNKNOWN") or (row.code != code and code >= DSP_OFFSET):
        return None
    causes = row.causes or ((Cause("", row.remedy, ""),) if row.remedy else ())
    detail = f"{row.code}, with the backend's own detail {code >> 16:#x} above it" if row.code != code else ""
    return Reading("qnn", row.code, row.name, row.meaning, causes, detail)


def _dsp(code: int) -> Reading | None:
    rest = code - DSP_OFFSET
    if not 0 < rest < _DSP_SPAN:
        return _plain("dsp", code)
    row = next((row for row in interface("dsp").codes if row.offset and row.code == rest), None)
    if row is None:
        row = ErrorCode(rest, f"DSP_AEE_EOFFSET + 0x{rest:03x}", "an error of the DSP without a name")
    return Reading("dsp", code, row.name, row.meaning, row.causes, f"0x{rest:x} of AEEStdErr.h")


def _snpe(code: int) -> Reading | None:
    if code in interface("snpe").by_code:
        return _plain("snpe", code)
    inner = code - _SNPE_SHIFT
    row = interface("qnn").by_code.get(inner) if 2000 <= code < 17000 else None
    if row is None:
        return None
    return Reading("snpe", code, _SNPE_PREFIX + row.name, row.meaning, row.causes, f"{inner} of QNN")


_READERS: Mapping[str, Callable[[int], Reading | None]] = {"qnn": _qnn, "dsp": _dsp, "snpe": _snpe}


@cache
def names() -> Mapping[str, tuple[str, int]]:
    """Every name of an error: its interface and number."""
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


def _named(text: str, of: str) -> Iterator[Reading]:
    word = text.strip().upper()
    for name, (owner, code) in names().items():
        if name.upper() == word and of in ("", owner):
            yield from read(code, of=owner)
            return


def _unknown_number(text: str, code: int, of: str) -> UsageError:
    where = f" of {interface(of).title}" if of else ""
    part = next((f"{low} to {low + 999}: {what}" for low, what in _RANGES if low <= code < low + 1000), "")
    near = min(filter(None, interface("qnn").by_code), key=lambda each: abs(each - code))
    hint = f"QNN's numbers {part}; the nearest is {near} ({describe(near).name})" if part else (
        "numbers of QNN are 1000 to 15000 and 30000, of a DSP 0x80000401 to 0x80000601; is it cut off?"
    )  # fmt: skip
    return UsageError(f"{text} is no error number{where} that udogen knows", hint=hint)


def _unknown_name(text: str) -> UsageError:
    if "/" in text or re.search(r"\.(log|txt|out)$", text):
        return UsageError(f"there is no file {text}", hint="give a log file, an error number or its name")
    word = text.strip().upper()
    parts = [name for name in names() if word and name.upper().endswith(word)]
    near = parts[:3] or [name for name in [nearest(word, names(), cutoff=0.5)] if name]
    hint = (
        f"did you mean {' or '.join(near)}?" if near else "give a number, a name such as QNN_…_ERROR_…, or a log file"
    )
    return UsageError(f"udogen knows no error `{text}`", hint=hint)
