"""crashing.py PACKAGE DIR: forward_0.bin, whose op crashes, _1.bin, and _2.bin, whose op fails.

In a separate process: a package uses the functions of the first HTP library of its process.
"""

from __future__ import annotations

import sys
from pathlib import Path

from udogen import GraphBuilder


def main(package: str, folder: Path) -> None:
    for number, op in enumerate(["Crashes", "Relu", "Fails"]):
        with GraphBuilder("htp", runtime="real", packages=[package]) as builder:
            with builder.graph("only", outputs=["y"]) as graph:
                x = graph.input("x", "FLOAT_32", (1, 1, 1, 8))
                graph.op(op, [x], "y", like=x)
            (folder / f"forward_{number}.bin").write_bytes(builder.context.binary())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
