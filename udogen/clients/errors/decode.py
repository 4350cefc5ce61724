"""A number or a name -> what it is, in every interface that has it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache

from udogen.clients.errors import causes_of_clients as causes
from udogen.clients.errors import dsp, others, snpe
from udogen.clients.errors.model import FAMILIES, Cause, Reading
from udogen.errors import UsageError
from udogen.opdef.problems import nearest
from udogen.qnn import backend_codes, codes

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


def explain(text: str, *, family: str = "") -> tuple[Reading, ...]:
    """Every reading of a number (3110, 0x80000406, -2147482618) or a name; the likeliest first."""
    code = number(text)
    found = tuple(read(code, family=family)) if code is not None else tuple(_named(text, family))
    if found:
        return found
    if code is not None:
        raise _unknown_number(text, code, family)
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


def read(code: int, *, family: str = "") -> Iterator[Reading]:
    """The readings of a number, in one interface or in all of them."""
    for name in [family] if family else _READERS:
        reading = _READERS[name](code)
        if reading is not None:
            yield reading


def _qnn(code: int) -> Reading | None:
    # A detail of the backend may be above bit 16; an offset of FastRPC is none.
    row = codes.describe(code)
    if row.name.startswith("UNKNOWN") or (row.code != code and code >= dsp.OFFSET):
        return None
    known = causes.of("qnn", row.code) or _remedy(row.remedy)
    detail = f"{row.code}, with the backend's own detail {code >> 16:#x} above it" if row.code != code else ""
    return Reading("qnn", row.code, row.name, row.meaning, known, detail)


def _remedy(text: str) -> tuple[Cause, ...]:
    return (Cause("", text, ""),) if text else ()


def _dsp(code: int) -> Reading | None:
    row = dsp.find(code)
    if row is not None:
        return Reading("dsp", code, row.name, row.meaning, causes.of("dsp", row.code), f"0x{row.code:x} of AEEStdErr.h")
    row = dsp.find_small(code)
    return Reading("dsp", code, row.name, row.meaning, causes.of("dsp", row.code)) if row else None


def _snpe(code: int) -> Reading | None:
    row = snpe.find(code)
    if row is None:
        return None
    inner = snpe.qnn_code(code)
    known = causes.of("snpe", code) or (causes.of("qnn", inner) if inner is not None else ())
    return Reading("snpe", code, row.name, row.meaning, known, f"{inner} of QNN" if inner is not None else "")


def _of_table(family: str, rows: tuple[others.Row, ...]) -> Callable[[int], Reading | None]:
    def find(code: int) -> Reading | None:
        row = next((row for row in rows if row.code == code), None)
        return Reading(family, code, row.name, row.meaning, causes.of(family, code)) if row else None

    return find


# In the order in which a bare number is most likely meant.
_READERS: Mapping[str, Callable[[int], Reading | None]] = {
    "qnn": _qnn,
    "dsp": _dsp,
    "snpe": _snpe,
    "executorch": _of_table("executorch", others.EXECUTORCH),
    "litert": _of_table("litert", others.LITERT),
    "ort": _of_table("ort", others.ORT),
}


@cache
def names() -> Mapping[str, tuple[str, int]]:
    """Every name of an error: its interface and number."""
    found: dict[str, tuple[str, int]] = {}
    for row in (*codes.ALL, *backend_codes.ALL):
        found.update(dict.fromkeys((row.name, *row.aliases), ("qnn", row.code)))
    for aee in dsp.ALL:
        found[aee.name] = ("dsp", dsp.OFFSET + aee.code)
        found[f"DSP_{aee.name}"] = ("dsp", dsp.OFFSET + aee.code)
    found.update({aee.name: ("dsp", aee.code) for aee in dsp.OTHERS})
    found.update({snpe.PREFIX + row.name: ("snpe", row.code) for row in snpe.ALL})
    found.update({f"{snpe.PREFIX}{row.name}": ("snpe", row.code + snpe.SHIFT) for row in codes.ALL if row.code >= 1000})
    found.update({row.name: ("executorch", row.code) for row in others.EXECUTORCH})
    found.update({row.name: ("litert", row.code) for row in others.LITERT})
    found.update({f"ORT_{row.name}": ("ort", row.code) for row in others.ORT})
    found.update({row.name: ("ort", row.code) for row in others.ORT})
    return found


def _named(text: str, family: str) -> Iterator[Reading]:
    word = text.strip().upper()
    for name, (owner, code) in names().items():
        if name.upper() == word and family in ("", owner):
            yield from read(code, family=owner)
            return


def _unknown_number(text: str, code: int, family: str) -> UsageError:
    where = f" of {FAMILIES[family].title}" if family else ""
    part = next((f"{low} to {low + 999}: {what}" for low, what in _RANGES if low <= code < low + 1000), "")
    near = min((row.code for row in codes.ALL if row.code), key=lambda each: abs(each - code))
    hint = f"QNN's numbers {part}; the nearest is {near} ({codes.describe(near).name})" if part else (
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
