"""Builds the model: its op package, and a context binary with two graphs for each shard.

build.py --out DIR [--shards 8] [--runtime real|emulator]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import deque
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from model import SEED, Grid, grids
from network import OUTPUTS, Sizes, block, weights

from udogen import (
    GenerateOptions,
    GraphBuilder,
    RunFailed,
    UdogenError,
    build_package,
    generate_packages,
    load_configs,
    open_packages,
)
from udogen.runtime import (
    GraphDraft,
    ModelDescription,
    OpLibrary,
    QnnTensor,
    ScaleOffset,
    TensorSpec,
    find_built,
    find_runtime,
    write_description,
)

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class ShardOptions:
    """What a process that builds shards needs."""

    kind: str
    package: Path
    out: Path
    sizes: Sizes
    seed: int


def note(line: str) -> None:
    """A line of progress."""
    print(line, file=sys.stderr, flush=True)


class Composer:
    """The ops of a block as nodes of a graph: a value is its tensor."""

    def __init__(self, graph: GraphDraft, grids: dict[str, Grid], weights: dict[str, np.ndarray]) -> None:
        self.graph, self._grids, self._weights = graph, grids, weights

    def input(self, name: str, shape: tuple[int, ...]) -> QnnTensor:
        spec = self._spec(name, shape)
        return self.graph.input(spec.name, spec.dtype, spec.shape, spec.quant)

    def weight(self, name: str) -> QnnTensor:
        spec = self._spec(name, ())
        return self.graph.weight(name, self._weights[name], spec.dtype, spec.quant)

    def matmul(self, a: QnnTensor, b: QnnTensor, name: str, *, transposed: bool = False) -> QnnTensor:
        shape = (*a.shape[:-1], b.shape[-2 if transposed else -1])
        return self._op("MatMul", [a, b], name, shape, transpose_in1=transposed)

    def add(self, a: QnnTensor, b: QnnTensor, name: str) -> QnnTensor:
        return self._op("ElementWiseAdd", [a, b], name, np.broadcast_shapes(a.shape, b.shape))

    def softmax(self, x: QnnTensor, name: str) -> QnnTensor:
        return self._op("Softmax", [x], name, x.shape)

    def reshape(self, x: QnnTensor, shape: tuple[int, ...], name: str) -> QnnTensor:
        return self.graph.op("Reshape", [x], name, shape=shape, like=x)

    def swap(self, x: QnnTensor, name: str) -> QnnTensor:
        first, second, third, fourth = x.shape
        shape = (first, third, second, fourth)
        return self.graph.op("Transpose", [x], name, shape=shape, like=x, params={"perm": (0, 2, 1, 3)})

    def rms_norm(self, x: QnnTensor, gain: QnnTensor, name: str) -> QnnTensor:
        return self._op("RmsNorm", [x, gain], name, x.shape, epsilon=1e-6)

    def swiglu(self, gate: QnnTensor, up: QnnTensor, name: str) -> QnnTensor:
        return self._op("SwiGlu", [gate, up], name, gate.shape)

    def cache_write(self, past: QnnTensor, rows: QnnTensor, position: QnnTensor, name: str) -> QnnTensor:
        return self._op("CacheWrite", [past, rows, position], name, past.shape)

    def _op(self, op: str, inputs: list[QnnTensor], name: str, shape: tuple[int, ...], **params: Any) -> QnnTensor:
        return self.graph.op(op, inputs, self._spec(name, shape), params=params)

    def _spec(self, name: str, shape: tuple[int, ...]) -> TensorSpec:
        grid = self._grids.get(name)
        if grid is None:
            return TensorSpec(name, "INT_32", shape)
        return TensorSpec(name, grid.dtype, shape, ScaleOffset(grid.scale, grid.offset))


def build_shard(options: ShardOptions, shard: int) -> str | list[str]:
    """Build both graphs of one shard and store the context: the file's name, or what was wrong."""
    log: deque[str] = deque(maxlen=20)
    sizes, own = options.sizes, weights(options.sizes, shard, options.seed)
    rows, last = grids(sizes, options.seed)[shard], shard == sizes.shards - 1
    names = [name for name in OUTPUTS if last or name != "logits"]
    runtime = {"packages": [options.package], "runtime": options.kind, "log": lambda _level, text: log.append(text)}
    try:
        with GraphBuilder("htp", **runtime) as builder:
            for name, tokens in sizes.graphs.items():
                with builder.graph(name, outputs=names) as graph:
                    block(Composer(graph, rows, own), sizes, tokens, last=last)
            return builder.save(options.out / f"forward_{shard}.bin").name
    except UdogenError as fault:  # such an exception does not pass from process to process
        return [fault.message, *fault.details, *log]


def build_ops(out: Path) -> Path:
    """The op package for HTP, from its config and kernels: its folder."""
    packages, problems = load_configs([HERE / "LlmOps.xml"])
    options = GenerateOptions(out, backends=("htp",), layout="qnn", kernels=HERE / "kernels")
    made = generate_packages(packages, options, problems)
    [package] = open_packages(made[0].folder)
    build_package(package, on_step=note)
    return package.path


def build(out: Path, *, sizes: Sizes, seed: int, kind: str, jobs: int) -> list[Path]:
    """Everything below `out`; the files of the shards, in their order."""
    out.mkdir(parents=True, exist_ok=True)
    package = build_ops(out / "package").resolve()
    find_runtime("htp", kind=kind, on_step=note)  # the emulator is compiled once, before processes need it
    options = ShardOptions(kind, package, out, sizes, seed)
    # Each process has a runtime of its own; a spawned one has inherited no thread of this one.
    with ProcessPoolExecutor(min(jobs, sizes.shards), mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(build_shard, options, shard) for shard in range(sizes.shards)]
        for each in as_completed(waiting):
            result = each.result()
            if not isinstance(result, str):
                raise RunFailed(f"a shard cannot be built: {result[0]}", details=result[1:])
            note(result)
    built = find_built(package, backend="htp")
    library = {"library": str(built.library.relative_to(out.resolve())), "provider": built.provider}
    about = {"sizes": asdict(sizes), "seed": seed, "runtime": kind, "op_package": library}
    (out / "sizes.json").write_text(json.dumps(about, indent=2) + "\n", "utf-8")
    (out / "model.toml").unlink(missing_ok=True)
    write_description(out / "model.toml", ModelDescription((out,), (OpLibrary(package),), "htp"))
    return [out / f"forward_{shard}.bin" for shard in range(sizes.shards)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the folder to fill")
    parser.add_argument("--shards", type=int, default=Sizes().shards)
    parser.add_argument("--runtime", choices=("real", "emulator"), default="real")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes that build shards")
    given = parser.parse_args()
    sizes = Sizes(shards=given.shards)
    for place in build(given.out, sizes=sizes, seed=given.seed, kind=given.runtime, jobs=given.jobs):
        print(f"{place}: {', '.join(sizes.graphs)}, {place.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UdogenError as fault:
        note(f"error: {fault}")
        sys.exit(fault.exit_code)
