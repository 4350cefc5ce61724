"""The processors that HTP can prepare a graph for: name, number in the QNN API, Hexagon version, TCM.

The sizes of TCM are from public tables: ExecuTorch's, else that of the version of Hexagon.  Only the emulator reads
them.
"""

from __future__ import annotations

from operator import index
from typing import NamedTuple

from udogen.errors import UsageError


class Soc(NamedTuple):
    """One system on a chip."""

    name: str
    model: int  # QNN_SOC_MODEL_…
    arch: str
    tcm: int = 8  # MiB for HTP


ALL = {
    row.name: row
    for row in (
        Soc("SM8350", 30, "v68", 4),
        Soc("SC8280X", 37, "v68"),
        Soc("SA8295", 39, "v68"),
        Soc("SM8450", 36, "v69"),
        Soc("SM8475", 42, "v69"),
        Soc("SXR2230P", 53, "v69"),
        Soc("SM8550", 43, "v73"),
        Soc("SXR1230P", 45, "v73", 2),
        Soc("SSG2115P", 46, "v73", 2),
        Soc("SA8255", 52, "v73"),
        Soc("SSG2125P", 58, "v73", 2),
        Soc("SC8380XP", 60, "v73"),
        Soc("QCS8550", 66, "v73"),
        Soc("SM8635", 68, "v73"),
        Soc("SM8650", 57, "v75"),
        Soc("SM8750", 69, "v79"),
        Soc("SM8735", 85, "v79"),
        Soc("SM8850", 87, "v81"),
    )
}


def model_of(text: str) -> int | None:
    """The number of a processor, from its name, its number, or a version of Hexagon (its first processor), or None."""
    if text.isascii() and text.isdigit() and 0 < int(text) < 2**31:
        return int(text)
    found = ALL.get(text.upper()) or next((row for row in ALL.values() if row.arch == text.lower()), None)
    return found.model if found else None


def number_of(given: int | str, what: str = "the soc") -> int:
    """The number of a processor that a caller names as for `model_of`, or gives itself; 0: none was chosen."""
    known = f"one of {', '.join(ALL)}, its number, or a version of Hexagon (v75)"
    model = index(given) if not isinstance(given, str) else model_of(given) if given else 0
    if model is None or not 0 <= model < 2**32:
        raise UsageError(f"{what} {given!r} is an unknown processor", hint=known)
    return model
