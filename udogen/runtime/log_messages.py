"""Log lines of runtimes: reasons for errors (udogen/data/log_lines/runtime.toml), and noise."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from udogen.error_tables import ErrorCause, log_lines

_TENSOR = re.compile(r"(Input|Output) tensor\[\d+\]:: element type: (\w+)(?:, layout: (\w+))?")


class Explanation(NamedTuple):
    """The reason for an error, from a line of the log."""

    id: str
    sentence: str
    hint: str
    cause: ErrorCause


def explain(subject: str, text: str) -> Explanation | None:
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
