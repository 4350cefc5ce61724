"""crashing.py PACKAGE PROVIDER NAME DIR: forward_0.bin, whose op crashes, _1.bin, and _2.bin, whose op fails.

In a separate process: a package uses the functions of the first HTP library of its process.
"""

from __future__ import annotations

import sys
from pathlib import Path

from udogen.qnn.tensors import APP_READ, APP_WRITE, OpConfig, QnnTensor
from udogen.runtime import Runtime

SHAPE = (1, 1, 1, 8)


def main(library: Path, provider: str, package: str, folder: Path) -> None:
    with Runtime("htp", runtime="real") as runtime:
        runtime.register(library, provider)
        for number, (owner, op) in enumerate([(package, "Crashes"), ("qti.aisw", "Relu"), (package, "Fails")]):
            with runtime.new_context() as context:
                graph = context.new_graph("only")
                x, y = (
                    graph.add_tensor(QnnTensor(name, dtype="FLOAT_32", shape=SHAPE, role=role))
                    for name, role in (("x", APP_WRITE), ("y", APP_READ))
                )
                graph.add_node(OpConfig("n", package=owner, op_type=op, inputs=[x], outputs=[y], params=[]))
                graph.finalize()
                (folder / f"forward_{number}.bin").write_bytes(context.binary())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4]))
