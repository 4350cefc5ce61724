"""What is known of an error: a cause with its remedy and where that is from, and one reading of a number or a line."""

from __future__ import annotations

import re
from typing import NamedTuple


class Cause(NamedTuple):
    """Why an error comes, what to do about it, and who says so: `measured: …`, or a repository and its thread."""

    text: str
    remedy: str
    source: str


class Reading(NamedTuple):
    """An error as one interface defines it; causes in the order of their likelihood."""

    family: str  # a name of FAMILIES
    code: int
    name: str
    meaning: str
    causes: tuple[Cause, ...] = ()
    same: str = ""  # the number it is elsewhere, where it is one of another interface in disguise


class Line(NamedTuple):
    """A line of a log.  `meaning` may name groups of the pattern: {lib}."""

    id: str
    said: re.Pattern[str]
    meaning: str
    known: tuple[Cause, ...]


def line(id: str, said: str, meaning: str, *known: Cause) -> Line:
    """A row of a table of lines."""
    return Line(id, re.compile(said), meaning, known)


class Family(NamedTuple):
    """An interface with numbers of its own, and the document they were taken from."""

    name: str
    title: str
    source: str


FAMILIES = {
    row.name: row
    for row in (
        Family("qnn", "QNN", "headers of the QNN API, core API 2.36 (SDK 2.47); HTP's own: SDK 2.43"),
        Family("dsp", "FastRPC", "AEEStdErr.h of qualcomm/fastrpc, commit f01d3deaa2ea"),
        Family("snpe", "SNPE", "DlError.h of SNPE 2.25"),
        Family("executorch", "ExecuTorch", "runtime/core/error.h of ExecuTorch 1.5.0"),
        Family("litert", "LiteRT", "litert_common.h of LiteRT 1.5.0 (experimental 2.3.0)"),
        Family("ort", "ONNX Runtime", "onnxruntime_c_api.h of ONNX Runtime 1.24"),
    )
}
