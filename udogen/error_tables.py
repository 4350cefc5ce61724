"""Tables of udogen/data: error codes by interface, lines that programs log, causes of both and of wrong numbers.

describe(4005).name                      # 'QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND'
interface("snpe").by_code[1106].meaning
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from typing import Any, NamedTuple

from udogen import resources

_TENSOR = re.compile(r"(Input|Output) tensor\[\d+\]:: element type: (\w+)(?:, layout: (\w+))?")


class Explanation(NamedTuple):
    """The reason for an error, from a line of the log."""

    id: str
    sentence: str
    hint: str
    cause: ErrorCause


def explain_log(subject: str, text: str) -> Explanation | None:
    """The reason for an error in these lines; None if none is known."""
    for row in log_lines("runtime"):
        if match := row.pattern.search(text):
            sentence = row.meaning.format(subject=subject, **match.groupdict(), **_derived(match, text))
            return Explanation(row.id, sentence, row.causes[0].remedy, row.causes[0])
    return None


def _derived(match: re.Match[str], text: str) -> dict[str, str]:
    """Values that rows may use in addition to the groups of their patterns."""
    tensors = _TENSOR.findall(text[match.end() :])
    return {
        "mebibytes": f"{int(match.groupdict().get('bytes') or 0) / 2**20:.4g}",
        "inputs": ", ".join(f"{element} {layout}" for kind, element, layout in tensors if kind == "Input"),
        "outputs": ", ".join(element for kind, element, _ in tensors if kind == "Output"),
    }


# Lines of every run: progress, traffic, entries of low severity, a missing configuration, an invalid flag of kernels
# that run nevertheless.
_NOISE = re.compile(
    r"\s*$|\s*(Starting|Completed) stage: |=+ .* =+$|\w+_bytes=\d+$"
    r"|.*:ERROR:invalid resource flag 0x1 |LIBNATIVE: No alternate configuration present"
    r"|\S+ \S+ \[[VI]:onnxruntime:"
)


_COLOUR = re.compile(r"\x1b\[[\d;]*m")


def without_noise(lines: Iterable[str]) -> list[str]:
    """The lines without colours and without those that every run prints."""
    plain = (_COLOUR.sub("", line) for line in lines)
    return [line for line in plain if not _NOISE.match(line)]


# Lines that report a refused node without the reason.
_REFUSED = re.compile(
    r"(?i)\bvalidation failed\b|failed to validate op |\w*validate\w+ .*failed \d+$"
    r"|please refer to |(requested|supported) i/o |failed to (add node with err|construct common node)"
)


def refusal(lines: Iterable[str]) -> str:
    """Why a runtime refused a node, by the lines that it logged; empty if they have no reason."""
    said = (line for line in without_noise(lines) if not _REFUSED.search(line))
    return next((line.strip().removeprefix("<E> ") for line in said), "")


_NODE = re.compile(r"getnode OpPackage-Name : (?P<package>.*) Node-Type : (?P<op>.*)")
_ADDED = re.compile(r"QnnGraph addnode end")


def left_out(lines: Iterable[str]) -> tuple[str, str] | None:
    """The first op, and its package, that libQnnCpu (2.47) silently leaves out of a restored graph.

    It logs each node that it reads at level 5, and each that it adds at level 4.
    """
    pending: tuple[str, str] | None = None
    for line in lines:
        if match := _NODE.search(line):
            if pending:
                return pending
            pending = match["op"], match["package"]
        elif _ADDED.search(line):
            pending = None
    return pending


# The most likely interface of a number first.
INTERFACES = ("qnn", "dsp", "snpe", "executorch", "litert", "ort")


class ErrorCause(NamedTuple):
    """Why an error occurs, what to do, and the source: `measured: …`, or a repository and its thread."""

    text: str
    remedy: str
    source: str


class ErrorCode(NamedTuple):
    """One error number."""

    code: int
    name: str
    meaning: str
    remedy: str = ""
    aliases: tuple[str, ...] = ()
    causes: tuple[ErrorCause, ...] = ()  # the most likely one first
    offset: bool = True  # dsp: the DSP returns `code` plus an offset


class KnownLine(NamedTuple):
    """A line that a program is known to log. `meaning` may name groups of the pattern: {lib}."""

    id: str
    pattern: re.Pattern[str]
    meaning: str
    causes: tuple[ErrorCause, ...]


class NumberCause(NamedTuple):
    """A cause of wrong numbers. `text` may contain {names}, filled in by the function that finds the cause."""

    name: str  # `saturation`, without the variant
    text: str
    remedy: str


class PrintedNumber(NamedTuple):
    """How a program prints an error number of an interface; the group `code` of the pattern is the number."""

    interface: str
    pattern: re.Pattern[str]


class ErrorInterface:
    """An interface that defines error numbers, and the document that lists them."""

    def __init__(self, name: str) -> None:
        table = resources.facts(f"error_codes/{name}")
        self.name = name
        self.title: str = table["title"]
        self.source: str = table["source"]
        self.codes = tuple(
            ErrorCode(
                row["code"],
                row["name"],
                row["meaning"],
                row.get("remedy", ""),
                tuple(row.get("aliases", ())),
                _causes(row),
                row.get("offset", True),
            )
            for row in table["code"]
        )

    @cached_property
    def by_code(self) -> Mapping[int, ErrorCode]:
        """The rows by number."""
        return {row.code: row for row in self.codes}


@cache
def interface(name: str) -> ErrorInterface:
    """The error table of one of INTERFACES."""
    return ErrorInterface(name)


def describe(code: int) -> ErrorCode:
    """The row of a QNN error number; for an unknown number, a row named UNKNOWN_…."""
    by_code = interface("qnn").by_code
    # Backends may add a detail from bit 16 upward; the number itself is in the bits below.
    return by_code.get(code) or by_code.get(code & 0xFFFF) or ErrorCode(
        code, f"UNKNOWN_{code}", "a number the QNN API does not define"
    )  # fmt: skip


@cache
def log_lines(*names: str) -> tuple[KnownLine, ...]:
    """The known lines in these files of data/log_lines."""
    rows = (row for name in names for row in resources.facts(f"log_lines/{name}")["line"])
    return tuple(KnownLine(row["id"], re.compile(row["pattern"]), row["meaning"], _causes(row)) for row in rows)


@cache
def printed_numbers() -> tuple[PrintedNumber, ...]:
    """How programs print error numbers, in the order in which the patterns are tried."""
    rows = resources.facts("log_lines/numbers")["number"]
    return tuple(PrintedNumber(row["interface"], re.compile(row["pattern"])) for row in rows)


@cache
def number_causes() -> Mapping[str, NumberCause]:
    """The rows of number_causes.toml by name: `race`, or `saturation.wraps` for a variant."""
    causes: dict[str, NumberCause] = {}
    for name, row in resources.facts("number_causes").items():
        variants = {f"{name}.{key}": value for key, value in row.items() if isinstance(value, dict)}
        for key, variant in {name: row, **variants}.items():
            if "text" in variant:
                causes[key] = NumberCause(name, variant["text"], variant.get("remedy") or row["remedy"])
    return causes


def _causes(row: Mapping[str, Any]) -> tuple[ErrorCause, ...]:
    rows: Iterable[Mapping[str, str]] = row.get("cause", ())
    found = (resources.facts("causes")[each["use"]] if "use" in each else each for each in rows)
    return tuple(ErrorCause(cause["text"], cause["remedy"], cause["source"]) for cause in found)
