"""Builds the model: its op package, and a context binary with two graphs for each shard.

build.py --out DIR [--shards 8] [--runtime real|emulator]
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from model import SEED, Grid, grids
from network import OUTPUTS, Sizes, block, weights

from udogen import GraphBuilder, UdogenError, make_package
from udogen.runtime import GraphDraft, Tensor

MODEL = """\
contexts = ["."]
packages = ["{package}"]
backend = "htp"
graphs = ["prefill_forward", "kv_forward"]

[links]
hidden = "hidden_out"

[state]
past_key = "key"
past_value = "value"
"""


@dataclass
class Composer:
    """Builds a block as nodes of a graph: values are tensors; a tensor without its own grid has that of its input."""

    graph: GraphDraft
    grids: dict[str, Grid]
    weights: dict[str, np.ndarray]

    def input(self, name: str, shape: tuple[int, ...]) -> Tensor:
        grid = self.grids.get(name)
        return self.graph.input(name, grid.dtype if grid else "INT_32", shape, grid.quant if grid else None)

    def weight(self, name: str) -> Tensor:
        return self.graph.weight(name, self.weights[name], self.grids[name].dtype, self.grids[name].quant)

    def op(self, kind: str, inputs: list[Tensor], name: str, shape: tuple[int, ...], **params: Any) -> Tensor:
        grid = self.grids.get(name)
        output = Tensor(name, grid.dtype, shape, grid.quant) if grid else name
        return self.graph.op(kind, inputs, output, shape=shape, like=inputs[0], params=params)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the folder to fill")
    parser.add_argument("--shards", type=int, default=Sizes().shards)
    parser.add_argument("--share-weights", action="store_true", help="store the weights of both graphs once")
    parser.add_argument("--runtime", choices=("real", "emulator"), default="real")
    given = parser.parse_args()
    sizes, config = Sizes(shards=given.shards), Path(__file__).with_name("LlmOps.xml")
    package = make_package(config, given.out / "package", backend="htp", on_step=partial(print, file=sys.stderr))
    for shard, rows in enumerate(grids(sizes)):
        last = shard == sizes.shards - 1
        with GraphBuilder(
            "htp", packages=[package], runtime=given.runtime, share_weights=given.share_weights
        ) as builder:
            for name, tokens in sizes.graphs.items():
                with builder.graph(name, outputs=OUTPUTS if last else OUTPUTS[:-1]) as graph:
                    block(Composer(graph, rows, weights(sizes, shard, SEED)), sizes, tokens, last=last)
            print(builder.save(given.out / f"forward_{shard}.bin"))
            print(f"  {sum(builder.shared.values()):,} bytes of weights belong to both graphs", file=sys.stderr)
    (given.out / "sizes.json").write_text(json.dumps(asdict(sizes)), "utf-8")
    (given.out / "model.toml").write_text(MODEL.format(package=package.relative_to(given.out)), "utf-8")


if __name__ == "__main__":
    try:
        main()
    except UdogenError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
