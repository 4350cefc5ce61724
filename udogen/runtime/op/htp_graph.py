"""What HTP makes of a graph, stage by stage: composed, rewritten, given kernels.

For each graph that it prepares, the emulator's htp backend appends a line of JSON to the file that UDOGEN_HTP_GRAPH
names.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

VARIABLE = "UDOGEN_HTP_GRAPH"
Stage = dict[str, Any]


class Recording:
    """A place where the emulator writes, for as long as the `with` block lasts; without `wanted`, none."""

    def __init__(self, *, wanted: bool = True) -> None:
        self._room = tempfile.TemporaryDirectory(prefix="udogen-") if wanted else None

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._room is not None:
            self._room.cleanup()

    @property
    def env(self) -> dict[str, str] | None:
        """What the process in which the emulator runs must find in its environment."""
        return None if self._room is None else {VARIABLE: str(self._file)}

    def stages(self) -> list[Stage] | None:
        """The stages of the last graph that was prepared; as far as it came, where that failed."""
        if self._room is None:
            return None
        if not self._file.is_file():
            return []
        [*_, last] = self._file.read_text("utf-8").splitlines()
        stages: list[Stage] = json.loads(last)["stages"]
        return stages

    @property
    def _file(self) -> Path:
        assert self._room is not None
        return Path(self._room.name) / "graphs.jsonl"


def lines(stages: Sequence[Stage]) -> list[str]:
    """The stages for a person; one that changes nothing is a single line."""
    text: list[str] = []
    before: list[str] = []
    for stage in stages:
        ops = [_line(op) for op in stage["ops"]] + [_result(row) for row in stage["results"]]
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


def _result(row: Stage) -> str:
    return f"  `{row['tensor']}` = {_name(*row['from'])}"


def _name(number: int, index: int) -> str:
    return f"%{number}" + (f".{index}" if index else "")
