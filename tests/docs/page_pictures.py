"""Pictures of the documents, drawn from facts: from a config to a program, and the packets of two kernels.

`make golden` writes them.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.making import ROOT, make_packages
from udogen.draw.diagram import LINE
from udogen.draw.svg import document, line

PICTURES = ROOT / "docs" / "pictures"
_STYLE = """
  :root { --paper: #ffffff; --ink: #1b1f24; --quiet: #57606a; --yours: #fff1d6; --made: #eef4fb; --edge: #8c959f }
  @media (prefers-color-scheme: dark) {
    :root { --paper: #0d1117; --ink: #e6edf3; --quiet: #9aa4af; --yours: #3a2a08; --made: #122236; --edge: #6e7681 }
  }
  .box { stroke: var(--edge) }
  .yours { fill: var(--yours) }
  .made { fill: var(--made) }
  .arrow { fill: none; stroke: var(--edge); stroke-width: 1.5 }
  .tip { fill: var(--edge) }
  .verb { font-weight: bold; fill: var(--quiet) }
"""
_WIDTH = 190


class _Box(NamedTuple):
    x: int
    y: int
    kind: str  # yours or made
    lines: tuple[str, ...]  # the first one is the title


class _Arrow(NamedTuple):
    begin: tuple[int, int]
    end: tuple[int, int]
    verb: str = ""


_PACKAGE_FILES = ("include/ops/Scale.hpp", "src/ops/Scale.cpp", "Makefile")
_BOXES = (
    _Box(20, 60, "yours", ("config", "Scale.xml or Scale.json")),
    _Box(20, 150, "yours", ("kernel", "kernels/Scale.cpp", "or Scale.py")),
    _Box(20, 257, "yours", ("reference, test cases", "reference.py", "op_tests.toml")),
    _Box(300, 60, "made", ("a package per backend", "CPU, GPU, DSP, HTP", *_PACKAGE_FILES)),
    _Box(580, 60, "made", ("libraries", "x86-64, aarch64", "Android", "Hexagon v65 to v81")),
    _Box(580, 257, "made", ("report", "right on each backend,", "or the cause")),
    _Box(860, 60, "yours", ("your program", "ONNX Runtime", "ExecuTorch", "SNPE, QNN …")),
)  # fmt: skip
_ARROWS = (
    _Arrow((210, 88), (300, 88), "generate"),
    _Arrow((210, 175), (300, 140)),
    _Arrow((490, 100), (580, 100), "build"),
    _Arrow((770, 100), (860, 100), "register"),
    _Arrow((675, 146), (675, 257), "test"),
    _Arrow((210, 285), (580, 285), "test"),
)


def pipeline() -> str:
    """Return the picture from a config to a program."""
    what = "udogen generate, build, test and register, and the files between them; yours are yellow"
    return document("From a config to your program", what, 1070, _STYLE, [*_pipeline(), "350"])


def _pipeline() -> Iterator[str]:
    yield line(20, 34, "yours: yellow; made by udogen: blue; on the arrows: verbs of udogen", "quiet")
    for begin, end, verb in _ARROWS:
        (x, y), down = end, begin[0] == end[0]
        yield f'<path class="arrow" d="M{begin[0]} {begin[1]}L{x} {y}"/>'
        yield f'<path class="tip" d="M{x} {y}{"l-4 -8h8z" if down else "l-8 -4v8z"}"/>'
        if verb:
            yield line(
                x + 8 if down else (begin[0] + x) / 2, y - 50 if down else y - 8, verb, "verb", "" if down else "middle"
            )
    for box in _BOXES:
        height = LINE * len(box.lines) + 18
        place = f'x="{box.x}" y="{box.y}" width="{_WIDTH}" height="{height}" rx="8"'
        yield f'<rect class="box {box.kind}" {place}/>'
        for number, text in enumerate(box.lines):
            yield line(box.x + 12, box.y + 22 + LINE * number, text, "quiet" if number else "head")


def packets(page: str) -> str:
    """Return the picture of the packets in docs/hexagon.md, for the HVX kernel and the scalar one."""
    found = re.findall(r"^  ([\d,]+) packets in one execution", page, re.MULTILINE)
    counts = dict(zip(("HVX", "scalar"), (int(each.replace(",", "")) for each in found[:2]), strict=True))
    title = "Packets of AddSatU8 for 1 MiB"
    what = ", ".join(f"{name}: {count:,}" for name, count in counts.items())
    return document(title, what, 760, _STYLE, [*_bars(title, counts.items()), "130"])


def _bars(title: str, counts: Iterable[tuple[str, int]]) -> Iterator[str]:
    rows = list(counts)
    most = max(count for _, count in rows)
    yield line(20, 30, title, "head")
    for number, (name, count) in enumerate(rows):
        y = 48 + 36 * number
        yield line(20, y + 16, name)
        yield f'<rect class="box made" x="90" y="{y}" width="{max(520 * count / most, 3):.1f}" height="24"/>'
        yield line(98 + max(520 * count / most, 3), y + 16, f"{count:,}")


_CONTENTS = {
    "src/ops/LeakyRelu.cpp": "the kernel",
    "user.mk": "flags and sources of your own",
    "config/LeakyRelu.xml": "a copy of the config",
    "include/QNN/…": "declarations of the QNN C API",
    "include/ops/LeakyRelu.hpp": "the arguments of the kernel",
    "makefiles/…": "a file for each platform",
    "src/CpuCustomOpPackage.cpp": "ops, types and shapes as tables",
    "src/LeakyReluPackageInterface.cpp": "the functions that QNN calls",
    "src/utils/…": "views of tensors, validation",
    "Makefile": "make cpu_x86, cpu_aarch64 …",
}


def package() -> str:
    """Return the picture of the folder of a package with one op: files that the user writes are yellow."""
    with tempfile.TemporaryDirectory() as out:
        [made] = make_packages([ROOT / "examples/leaky_relu/LeakyRelu.xml"], Path(out), chosen=["cpu"])
    owned = {each.path: each.user_owned for each in made.plan.files} | {"user.mk": True}
    rows = dict.fromkeys((_shown(path), yours) for path, yours in sorted(owned.items(), key=_folders_first))
    title, what = made.plan.package, "yellow: yours, never overwritten; all else is generated from the config"
    return document(title, what, 760, _STYLE, [*_tree(title, what, rows), f"{70 + 24 * len(rows)}"])


def _shown(path: str) -> str:
    """Return a file, or its folder if users need not open it."""
    return next((each for each in _CONTENTS if each.endswith("…") and path.startswith(each[:-1])), path)


def _folders_first(item: tuple[str, bool]) -> tuple[bool, bool, str]:
    path, yours = item
    return not yours, "/" not in path, path


def _tree(title: str, what: str, rows: Iterable[tuple[str, bool]]) -> Iterator[str]:
    yield line(20, 30, f"{title}/", "head")
    yield line(20, 48, what, "quiet")
    for number, (path, yours) in enumerate(rows):
        y = 60 + 24 * number
        yield f'<rect class="box {"yours" if yours else "made"}" x="20" y="{y}" width="400" height="20" rx="4"/>'
        yield line(32, y + 14, path)
        yield line(436, y + 14, _CONTENTS[path], "quiet")


def pictures() -> dict[str, str]:
    """Return the texts of the pictures by name."""
    page = (ROOT / "docs/hexagon.md").read_text("utf-8")
    return {"pipeline.svg": pipeline(), "packets.svg": packets(page), "package.svg": package()}


def write() -> None:
    """Write the pictures into the documents."""
    for name, text in pictures().items():
        (PICTURES / name).write_text(text, "utf-8")
