"""What runtimes are known to say when something is wrong, and what it means: one row each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple


class Known(NamedTuple):
    """A line of the runtime, and the sentence and the remedy for it."""

    said: re.Pattern[str]
    sentence: Callable[[str, re.Match[str], str], str]  # (subject, the match, all that was said)
    hint: str


def _too_large(subject: str, match: re.Match[str], _text: str) -> str:
    return f"{subject} does not fit in TCM: its tensors need {int(match['bytes']) / 2**20:.4g} MiB at once"


def _no_kernel(subject: str, match: re.Match[str], text: str) -> str:
    found = _TENSOR.findall(text[match.end() :])
    inputs = ", ".join(f"{element} {layout}" for kind, element, layout in found if kind == "Input")
    outputs = ", ".join(element for kind, element, _ in found if kind == "Output")
    return f"{subject} was refused: none of its kernels takes inputs ({inputs}) and outputs ({outputs})"


_TENSOR = re.compile(r"(Input|Output) tensor\[\d+\]:: element type: (\w+)(?:, layout: (\w+))?")

ALL = (
    Known(
        re.compile(r"not sufficiently tiled to fit in TCM\. Requires (?P<bytes>\d+) bytes"),
        _too_large,
        "make the tensors smaller, or let HTP cut the op into tiles: `op.tiles<…>()` in hooks(), see docs/htp.md",
    ),
    Known(
        re.compile(r"Failed matching a kernel for '[^']*' op!"),
        _no_kernel,
        "HTP delivers what the details show; name these data types in the config and generate again, or let a kernel "
        "of hooks() take them (parameters are inputs too, in the order of the config)",
    ),
    Known(
        # clang, in PoCL and in Adreno's driver: the emulator, and `#line` of our packages, see to the file's name.
        re.compile(
            r"kernel \S+ does not compile(?:.*\n)+?"
            r"(?:error: )?(?P<where>\S+\.cl:\d+:\d+)(?: <Spelling=.*>)?: (?P<why>.*)"
        ),
        lambda subject, match, _text: (
            f"{subject} does not compile: {match['where']}: {match['why'].removeprefix('error: ')}"
        ),
        "mend the kernel; all that the OpenCL compiler said is above",
    ),
    Known(
        re.compile(r"deserialization failed: op \[(?P<op>\w+::\w+)\] not found"),
        lambda subject, match, _text: (
            f"{subject} needs the op {match['op'].partition('_hvx')[0].partition('_main')[0]}, "
            "and no op package that is registered has it"
        ),
        "register the package it was made with: --op-package LIB; it must be of the same version",
    ),
    Known(
        re.compile(r"rewrite yields error: (?P<why>.*)"),
        lambda subject, match, _text: f"{subject} was refused by its rewrite: {match['why'].strip()}",
        "see earlyRewrite and lateRewrite in its hooks()",
    ),
    Known(
        re.compile(r"Unable to find the op package initialization function op_pkg_init in op package (?P<library>.*)"),
        lambda _subject, match, _text: (
            f"{match['library'].strip()} is no op package for HTP: it has neither qhpi_init nor op_pkg_init"
        ),
        "it is built for another backend: give that with --backend, or generate with --backend htp",
    ),
)


# What it says whatever happens: its progress, its traffic, that it has no configuration; and of kernels on the main
# thread that their flag is invalid, though they run.
_NOISE = re.compile(
    r"\s*$|\s*(Starting|Completed) stage: |=+ .* =+$|\w+_bytes=\d+$"
    r"|.*:ERROR:invalid resource flag 0x1 |LIBNATIVE: No alternate configuration present"
)


def telling(lines: Iterable[str]) -> list[str]:
    """The lines that say something about this run."""
    return [line for line in lines if not _NOISE.match(line)]


_NODE = re.compile(r"getnode OpPackage-Name : (?P<package>.*) Node-Type : (?P<op>.*)")
_ADDED = re.compile(r"QnnGraph addnode end")


def left_out(lines: Iterable[str]) -> tuple[str, str] | None:
    """The first op, and its package, that libQnnCpu (2.47) leaves out of a graph that it restores: it returns no error.

    It logs each node that it reads, at level 5, and at level 4 that it has been added.
    """
    pending: tuple[str, str] | None = None
    for line in lines:
        if found := _NODE.search(line):
            if pending:
                return pending
            pending = found["op"], found["package"]
        elif _ADDED.search(line):
            pending = None
    return pending


def explain(subject: str, text: str) -> tuple[str, str] | None:
    """The sentence and the remedy for what was said; None where nothing of it is known."""
    for row in ALL:
        if match := row.said.search(text):
            return row.sentence(subject, match, text), row.hint
    return None
