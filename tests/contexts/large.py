"""In a separate process: a context binary of about one gigabyte, made by libQnnHtp.  `large.py FILE [MEGABYTES]`

It holds tables of bytes, like those of embeddings, and one graph that returns row `index` of each.  Looking up rows
takes no time, so the measurement shows the cost of restoring.
"""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.making import LONG, ROOT
from udogen.qnn import abi
from udogen.qnn.tensors import APP_READ, APP_WRITE, NATIVE, STATIC, QnnTensor
from udogen.runtime import Context, OpConfig, Runtime, Scalar
from udogen.runtime.quantization import ScaleOffset

GRAPH, DTYPE, QUANT = "rows", "UFIXED_POINT_8", ScaleOffset(0.02, -128)
MEGABYTES = 1024
NEEDS = 4500  # megabytes of memory to make it (measured: 4.3 GB); restoring takes 2.2 GB
SIDE = 4096  # rows of a table, and bytes of a row: 16 MiB


def table(number: int) -> np.ndarray:
    """Return a table; it is random, so that it cannot be compressed."""
    return np.frombuffer(np.random.default_rng(number).bytes(SIDE * SIDE), np.uint8).reshape(SIDE, SIDE)


def compose(context: Context, tables: int) -> None:
    """Compose the graph: a Gather for each table, with their rows side by side."""
    graph = context.new_graph(GRAPH)
    index = graph.add_tensor(QnnTensor("index", dtype="INT_32", shape=(1,), role=APP_WRITE))
    rows, room = [], bytearray(SIDE * SIDE)
    for number in range(tables):
        room[:] = table(number).tobytes()  # one buffer for all: libQnnHtp copies static data at once
        tensor = QnnTensor(f"table{number}", dtype=DTYPE, shape=(SIDE, SIDE), role=STATIC, quant=QUANT, data=room)
        held = graph.add_tensor(tensor)
        row = graph.add_tensor(QnnTensor(f"row{number}", dtype=DTYPE, shape=(1, SIDE), role=NATIVE, quant=QUANT))
        axis = Scalar("axis", "INT_32", 0)
        node(graph, "Gather", [held, index], row, axis)
        rows.append(row)
    out = graph.add_tensor(QnnTensor("out", dtype=DTYPE, shape=(tables, SIDE), role=APP_READ, quant=QUANT))
    node(graph, "Concat", rows, out, Scalar("axis", "UINT_32", 0))
    graph.finalize()


def node(graph, op: str, inputs: list[QnnTensor], output: QnnTensor, axis: Scalar) -> None:  # type: ignore[no-untyped-def]
    graph.add_node(
        OpConfig(output.name, package="qti.aisw", op_type=op, inputs=inputs, outputs=[output], params=[axis])
    )


def store(context: Context, place: Path) -> None:
    """Let the runtime itself write the binary to the file: this process has no copy of it."""
    ffi = abi.ffi()
    size = ffi.new("Qnn_ContextBinarySize_t *")
    context.handle.interface.call("contextGetBinarySize", context.handle.raw, size)
    with place.open("w+b") as file:
        file.truncate(size[0])
        with mmap.mmap(file.fileno(), size[0]) as room:
            written = ffi.new("Qnn_ContextBinarySize_t *")
            held = ffi.from_buffer(room)
            context.handle.interface.call("contextGetBinary", context.handle.raw, held, size[0], written)
            ffi.release(held)
        file.truncate(written[0])


def need_memory(folder: Path, needs: int, *, disk: int) -> None:
    """Skip the test if memory or disk are too small, in megabytes."""
    lines = Path("/proc/meminfo").read_text("utf-8").splitlines()
    memory = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) >> 10
    free = shutil.disk_usage(folder).free >> 20
    if memory < needs or free < disk:
        pytest.skip(f"{memory} MB of memory and {free} MB of disk are too little: {needs} and {disk} are needed")


def made(place: Path, megabytes: int = MEGABYTES) -> Path:
    """Return the file, written by a separate process; skip the test if memory or disk are too small."""
    need_memory(place.parent, NEEDS, disk=2 * megabytes)
    argv = [sys.executable, "-m", "tests.contexts.large", place, str(megabytes)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stderr[-2000:]
    assert place.stat().st_size > megabytes << 20
    return place


def main() -> None:
    place, megabytes = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else MEGABYTES
    os.dup2(2, 1)  # libQnnHtp writes to stdout
    with Runtime("htp", runtime="real") as runtime, runtime.new_context() as context:
        compose(context, megabytes // 16)
        store(context, place)


if __name__ == "__main__":
    main()
