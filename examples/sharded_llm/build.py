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

import numpy as np
from model import SEED, Grid, grids
from network import INPUTS, OUTPUTS, Sizes, block, weights

from udogen import (
    GenerateOptions,
    RunFailed,
    UdogenError,
    build_package,
    generate_packages,
    load_configs,
    open_packages,
)
from udogen.runtime import (
    APP_READ,
    APP_WRITE,
    NATIVE,
    STATIC,
    Context,
    OpConfig,
    Param,
    QnnTensor,
    Runtime,
    Scalar,
    ScaleOffset,
    StoredContext,
    find_built,
    find_runtime,
    info_json,
)

HERE = Path(__file__).resolve().parent
ROLES = {**dict.fromkeys(INPUTS, APP_WRITE), **dict.fromkeys(OUTPUTS, APP_READ)}
PACKAGE, QTI = "LlmPackage", "qti.aisw"


@dataclass(frozen=True)
class Order:
    """What a process that builds shards needs."""

    kind: str
    library: Path
    provider: str
    out: Path
    sizes: Sizes
    seed: int


def note(line: str) -> None:
    """A line of progress."""
    print(line, file=sys.stderr, flush=True)


class Composer:
    """The ops of a block as nodes of a graph: a value is its tensor."""

    def __init__(self, context: Context, name: str, *, grids: dict[str, Grid], weights: dict[str, np.ndarray]) -> None:
        self.context, self.graph = context, context.new_graph(name)
        self._grids, self._weights = grids, weights
        self._made: dict[str, Grid | None] = {}
        axes = bytearray(np.uint32([0, 2, 1, 3]).tobytes())
        self._perm = QnnTensor("perm", dtype="UINT_32", shape=(4,), role=STATIC, data=axes)
        self.graph.add_tensor(self._perm)

    def input(self, name: str, shape: tuple[int, ...]) -> QnnTensor:
        return self._tensor(name, shape, self._grids.get(name))

    def weight(self, name: str) -> QnnTensor:
        grid, real = self._grids[name], self._weights[name]
        return self._tensor(name, real.shape, grid, data=bytearray(grid.store(real).tobytes()))

    def matmul(self, a: QnnTensor, b: QnnTensor, name: str, *, transposed: bool = False) -> QnnTensor:
        shape = (*a.shape[:-1], b.shape[-2 if transposed else -1])
        return self._node("MatMul", [a, b], name, shape, Scalar("transpose_in1", "BOOL_8", transposed))

    def add(self, a: QnnTensor, b: QnnTensor, name: str) -> QnnTensor:
        return self._node("ElementWiseAdd", [a, b], name, np.broadcast_shapes(a.shape, b.shape))

    def softmax(self, x: QnnTensor, name: str) -> QnnTensor:
        return self._node("Softmax", [x], name, x.shape)

    def reshape(self, x: QnnTensor, shape: tuple[int, ...], name: str) -> QnnTensor:
        return self._node("Reshape", [x], name, shape, moved=x)

    def swap(self, x: QnnTensor, name: str) -> QnnTensor:
        first, second, third, fourth = x.shape
        return self._node("Transpose", [x], name, (first, third, second, fourth), self._perm, moved=x)

    def rms_norm(self, x: QnnTensor, gain: QnnTensor, name: str) -> QnnTensor:
        return self._node("RmsNorm", [x, gain], name, x.shape, Scalar("epsilon", "FLOAT_32", 1e-6), package=PACKAGE)

    def swiglu(self, gate: QnnTensor, up: QnnTensor, name: str) -> QnnTensor:
        return self._node("SwiGlu", [gate, up], name, gate.shape, package=PACKAGE)

    def cache_write(self, past: QnnTensor, rows: QnnTensor, position: QnnTensor, name: str) -> QnnTensor:
        return self._node("CacheWrite", [past, rows, position], name, past.shape, package=PACKAGE)

    def _node(
        self,
        op: str,
        inputs: list[QnnTensor],
        name: str,
        shape: tuple[int, ...],
        *params: Param,
        package: str = QTI,
        moved: QnnTensor | None = None,  # an input whose numbers the op only moves
    ) -> QnnTensor:
        made = self._tensor(name, shape, self._made[moved.name] if moved else self._grids[name])
        node = OpConfig(name, package=package, op_type=op, inputs=inputs, outputs=[made], params=params)
        self.graph.add_node(node)
        return made

    def _tensor(self, name: str, shape: tuple[int, ...], grid: Grid | None, data: bytearray | None = None) -> QnnTensor:
        role = STATIC if data is not None else ROLES.get(name, NATIVE)
        self._made[name] = grid
        dtype, quant = ("INT_32", None) if grid is None else (grid.dtype, ScaleOffset(grid.scale, grid.offset))
        return self.graph.add_tensor(QnnTensor(name, dtype=dtype, shape=shape, role=role, quant=quant, data=data))


def build_shard(order: Order, shard: int) -> str | list[str]:
    """Build both graphs of one shard and store the context: the file's name, or what was wrong."""
    log: deque[str] = deque(maxlen=20)
    try:
        with Runtime("htp", kind=order.kind, log=lambda _level, text: log.append(text)) as runtime:
            return store_shard(order, shard, runtime)
    except UdogenError as fault:  # such an exception does not pass from process to process
        return [fault.message, *fault.details, *log]


def store_shard(order: Order, shard: int, runtime: Runtime) -> str:
    """The same, where nothing goes wrong."""
    sizes, place = order.sizes, order.out / f"forward_{shard}.bin"
    own, rows = weights(sizes, shard, order.seed), grids(sizes, order.seed)[shard]
    runtime.register(order.library, order.provider)
    with runtime.new_context() as context:
        for name, tokens in sizes.graphs.items():
            composer = Composer(context, name, grids=rows, weights=own)
            block(composer, sizes, tokens, last=shard == sizes.shards - 1)
            context.finalize_graph(composer.graph)
        context.save(place)
    with StoredContext(place, use_json=False) as stored:
        place.with_name(f"forward_{shard}_json.json").write_text(info_json(stored.info), "utf-8")
    return place.name


def build_ops(out: Path) -> tuple[Path, str]:
    """The op package for HTP, from its config and kernels: the library and its provider."""
    packages, problems = load_configs([HERE / "LlmOps.xml"])
    options = GenerateOptions(out, backends=("htp",), layout="qnn", kernels=HERE / "kernels")
    made = generate_packages(packages, options, problems)
    [package] = open_packages(made[0].folder)
    build_package(package, on_step=note)
    built = find_built(package.path, backend="htp")
    return Path(built.library), built.provider


def build(out: Path, *, sizes: Sizes, seed: int, kind: str, jobs: int) -> list[Path]:
    """Everything below `out`; the files of the shards, in their order."""
    out.mkdir(parents=True, exist_ok=True)
    library, provider = build_ops(out / "package")
    find_runtime("htp", kind=kind, on_step=note)  # the emulator is compiled once, before processes need it
    order = Order(kind, library.resolve(), provider, out, sizes, seed)
    # Each process has a runtime of its own; a spawned one has inherited no thread of this one.
    with ProcessPoolExecutor(min(jobs, sizes.shards), mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(build_shard, order, shard) for shard in range(sizes.shards)]
        for each in as_completed(waiting):
            result = each.result()
            if not isinstance(result, str):
                raise RunFailed(f"a shard cannot be built: {result[0]}", details=result[1:])
            note(result)
    about = {
        "sizes": asdict(sizes),
        "seed": seed,
        "runtime": kind,
        "op_package": {"library": str(library.relative_to(out)), "provider": provider},
    }
    (out / "model.json").write_text(json.dumps(about, indent=2) + "\n", "utf-8")
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
