"""The stages in which HTP prepares a graph: composed, rewritten, with kernels.

For each graph that it prepares, the emulator's htp backend appends a line of JSON to the file that UDOGEN_HTP_GRAPH
names.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from udogen.qnn.handles import Closing

VARIABLE = "UDOGEN_HTP_GRAPH"
Stage = dict[str, Any]


class Recording(Closing):
    """A file that the emulator writes to inside the `with` block; without `wanted` it is not created."""

    def __init__(self, *, wanted: bool = True) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="udogen-") if wanted else None
        self._file = Path(self._folder.name, "graphs.jsonl") if self._folder else None

    def close(self) -> None:
        """Remove the file."""
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def env(self) -> dict[str, str] | None:
        """The environment of the process in which the emulator runs."""
        return {VARIABLE: str(self._file)} if self._file else None

    def stages(self) -> list[Stage] | None:
        """The stages of the last graph that was prepared, up to a failure; None without `wanted`."""
        if self._file is None:
            return None
        if not self._file.is_file():
            return []
        stages: list[Stage] = json.loads(self._file.read_text("utf-8").splitlines()[-1])["stages"]
        return stages


def lines(stages: Sequence[Stage]) -> list[str]:
    """The stages as text; a stage that changes nothing is a single line."""
    text: list[str] = []
    before: list[str] = []
    for stage in stages:
        ops = [_line(op) for op in stage["ops"]] + [
            f"  `{row['tensor']}` = {_name(*row['from'])}" for row in stage["results"]
        ]
        text += [f"{stage['stage']}: as before"] if ops == before else [f"{stage['stage']}:", *ops]
        before = ops
    return text


def _line(op: Stage) -> str:
    outputs = ", ".join(_output(row) for row in op["outputs"])
    given = ", ".join(_name(number, index) for number, index in op["inputs"])
    about = [f"`{op[key]}`" for key in ("tensor", "node") if key in op]
    if "kernel" in op:
        memory = f"{', '.join(op['input_memory'])} -> {', '.join(op['output_memory'])}"
        about.append(f"kernel {op['kernel']} [{memory}]")
    tail = f"  {' '.join(about)}" if about else ""
    return f"  %{op['id']} = {op['op']}({given}) : {outputs}{tail}"


def _output(row: Stage) -> str:
    shape = "x".join(map(str, row["shape"]))
    quantized = row["type"].startswith("Q")
    return f"{row['type']} {shape}" + (f" (x - {row['zero']}) * {row['step']:.6g}" if quantized else "")


def _name(number: int, index: int) -> str:
    return f"%{number}" + (f".{index}" if index else "")
