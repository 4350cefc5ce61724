"""client.c, and its Python counterpart: both restore and execute a graph, and report times and memory in one format."""

from __future__ import annotations

import json
import mmap
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.clock import as_installed
from tests.making import LONG, ROOT
from udogen import resources
from udogen.qnn import system
from udogen.qnn.system import GraphInfo
from udogen.qnn.tensors import byte_size, type_code
from udogen.runtime.quantization import ScaleOffset


@dataclass(frozen=True)
class Measured:
    """One run of a client; seconds, and megabytes of 1024 kB."""

    start: float  # from before the process starts until after the first execution
    restore: float
    first: float  # the first execution
    execute: float  # one of many executions
    called: float  # the same, called with arrays, in Python
    peak: float
    peak_before: float  # before anything is restored
    whole: float  # the whole process

    @classmethod
    def of(cls, measured: dict[str, float], began: float, whole: float) -> Measured:
        """Return the measurements that a client has written."""
        return cls(
            start=measured["first"] - began,
            restore=measured["restored"] - measured["ready"],
            first=measured["first"] - measured["restored"],
            execute=measured["execute"],
            called=measured.get("called", -1.0),
            peak=measured["hwm"] / 1024,
            peak_before=measured["hwm_before"] / 1024,
            whole=whole,
        )


def build(folder: Path) -> Path:
    """Build the client with udogen's own headers of QNN."""
    made = folder / "client"
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{resources.qnn_headers()}"]
    source = Path(__file__).with_name("client.c")
    done = subprocess.run(["cc", *flags, str(source), "-o", str(made), "-ldl"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return made


def tensors(graph: GraphInfo) -> str:
    """Return a graph's tensors in the format of the client."""
    lines = [graph.name]
    for side, rows in (("in", graph.inputs), ("out", graph.outputs)):
        for row in rows:
            quant = row.quant if isinstance(row.quant, ScaleOffset) else ScaleOffset(0, 0)
            numbers = [row.id, type_code(row.dtype), byte_size(row.dtype, row.shape)]
            lines.append(" ".join(map(str, [side, *numbers, quant.scale, quant.offset, len(row.shape), *row.shape])))
    return "\n".join(lines) + "\n"


def run(
    argv: Sequence[object],
    binary: Path,
    *,
    runtime: Path,
    graph: str,
    loops: int,
    room: Path,
    package: Sequence[str] = (),
) -> Measured:
    """`argv` is the C client, or Python with py_client.py."""
    listed, out = room / "tensors.txt", room / "measured.json"
    with binary.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view:
        info = system.binary_info(runtime.with_name("libQnnSystem.so"), view)
    listed.write_text(tensors(next(each for each in info.graphs if each.name == graph)), "utf-8")
    command = [*map(str, argv), str(runtime), str(binary), str(listed), str(loops), str(out), *map(str, package)]
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env=as_installed(), capture_output=True, text=True, timeout=LONG)
    whole = time.monotonic() - began
    assert done.returncode == 0, done.stderr[-2000:]
    return Measured.of(json.loads(out.read_text("utf-8")), began, whole)


PYTHON = (sys.executable, Path(__file__).with_name("py_client.py"))
