"""In a separate process: what the probe package sees in one of the two HTP runtimes, as JSON (test_htp_probe.py)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from udogen.qnn.handles import BackendHandle, LogHandle
from udogen.qnn.interface import Interface
from udogen.qnn.tensors import APP_READ, APP_WRITE, NATIVE, NULL, STATIC, QnnTensor
from udogen.runtime import OpConfig, QnnError, Scalar, find_runtime
from udogen.runtime.quantization import ScaleOffset

NUMPY = {
    "UFIXED_POINT_8": "u1", "UINT_8": "u1", "INT_8": "i1", "SFIXED_POINT_8": "i1", "BOOL_8": "u1",
    "UFIXED_POINT_16": "u2", "UINT_16": "u2", "INT_16": "i2", "SFIXED_POINT_16": "i2",
    "INT_32": "i4", "UINT_32": "u4", "SFIXED_POINT_32": "i4", "UFIXED_POINT_32": "u4",
    "INT_64": "i8", "UINT_64": "u8", "FLOAT_16": "f2", "FLOAT_32": "f4", "FLOAT_64": "f8",
}  # fmt: skip


def run(backend: BackendHandle, name: str, row: dict[str, Any]) -> object:
    """Return the output of a graph of one op, or the step that failed and its code."""
    shape, dtype = tuple(row.get("shape", (1, 2, 3, 4))), row.get("dtype", "FLOAT_32")
    data = (np.arange(int(np.prod(shape))) % 100 + 1).astype(NUMPY[dtype]).tobytes()
    quant = ScaleOffset(*row["quant"]) if "quant" in row else None
    step = "create"
    try:
        with backend.context() as context:
            graph = context.graph(name)
            role = STATIC if row.get("static") else APP_WRITE
            x = QnnTensor("x", dtype=dtype, shape=shape, role=role, quant=quant, data=data if role == STATIC else None)
            graph.add_tensor(x)
            out_shape, out_type = row.get("out", ((1, 1, 1, 256), "FLOAT_32"))
            y = QnnTensor("y", dtype=out_type, shape=out_shape, role=APP_READ, quant=quant if "out" in row else None)
            graph.add_tensor(y)
            made, after = y, row.get("after")  # a built-in op after that of the package
            if after:
                made = graph.add_tensor(QnnTensor("m", dtype=out_type, shape=out_shape, role=NATIVE, quant=quant))
            inputs = (
                [x, graph.add_tensor(QnnTensor("none", dtype=dtype, shape=(0,), role=NULL))] if row.get("null") else [x]
            )
            params: list[Any] = []
            for index, (kind, value) in enumerate(row.get("params", ())):
                if isinstance(value, list):
                    held = np.array(value, NUMPY[kind])
                    tensor = QnnTensor(f"p{index}", dtype=kind, shape=held.shape, role=STATIC, data=held.tobytes())
                    params.append(graph.add_tensor(tensor))
                else:
                    params.append(Scalar(f"p{index}", kind, value))
            step = "node"
            graph.add_node(
                OpConfig("n", package="Probe", op_type=row["op"], inputs=inputs, outputs=[made], params=params)
            )
            if after:
                graph.add_node(OpConfig("after", package="qti.aisw", op_type=after, inputs=[made], outputs=[y]))
            step = "finalize"
            graph.finalize()
            step = "execute"
            room = bytearray(y.nbytes)
            y.bind(room)
            if role == APP_WRITE:
                x.bind(data)
            graph.execute([] if role == STATIC else [x], [y])
            return np.frombuffer(room, NUMPY[out_type]).astype(np.float64).tolist()
    except QnnError as error:
        return [step, error.code]


def main() -> None:
    """`htp_drive.py KIND LIBRARY ROWS OUT`."""
    kind, library, rows, out = sys.argv[1:5]
    interface = Interface.load(find_runtime("htp", runtime=kind).path)
    log_lines: list[str] = []
    with (
        LogHandle(interface, lambda _level, text: log_lines.append(text), 1) as log,
        BackendHandle(interface, log) as backend,
    ):
        backend.register(Path(library), "ProbeInterfaceProvider")
        found = [run(backend, f"g{index}", row) for index, row in enumerate(json.loads(Path(rows).read_text()))]
        Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
