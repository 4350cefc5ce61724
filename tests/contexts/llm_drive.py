"""In a separate process: the sharded model with only `udogen.qnn` and plain client buffers, compared with numpy.

`llm_drive.py KIND DIR OUT` writes the differences as JSON (test_sharded_llm.py).
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from udogen.qnn.handles import BackendHandle, GraphHandle
from udogen.qnn.interface import Interface
from udogen.qnn.quantization import ScaleOffset
from udogen.qnn.system import GraphInfo, binary_info
from udogen.qnn.tensors import APP_READ, APP_WRITE, QnnTensor
from udogen.runtime import find_built, find_runtime

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "sharded_llm"))

from model import Grid, Model, mask, padded, rounded  # noqa: E402
from network import KV, PREFILL, Sizes  # noqa: E402

# A whole prefill, and shorter ones; at each step the likeliest token is well ahead of the second (the test checks it).
PROMPTS = ([12, 21, 0, 38, 19, 23, 48, 56, 46, 10, 53, 1, 9, 6, 24, 33], [25, 45, 15, 35, 41, 27], [29])
TOKENS = 9  # the first one by prefill_forward, eight by kv_forward
Array = np.ndarray[Any, np.dtype[Any]]


class Bound:
    """A restored graph whose tensors take buffers by name."""

    def __init__(self, graph: GraphHandle, info: GraphInfo) -> None:
        self.graph = graph
        self.inputs = [self._tensor(each, APP_WRITE) for each in info.inputs]
        self.outputs = [self._tensor(each, APP_READ) for each in info.outputs]
        self.infos = {each.name: each for each in (*info.inputs, *info.outputs)}

    def _tensor(self, info: Any, role: str) -> QnnTensor:
        quant = ScaleOffset(*info.scale_offset) if info.scale_offset else None
        tensor = QnnTensor(info.name, dtype=info.dtype, shape=info.shape, role=role, quant=quant)
        tensor.struct.v1.id = info.id
        return tensor

    def grid(self, name: str) -> Grid:
        info = self.infos[name]
        return Grid(info.dtype, ScaleOffset(*info.scale_offset))

    def run(self, buffers: dict[str, bytearray]) -> None:
        self.buffers = buffers
        for each in (*self.inputs, *self.outputs):
            each.bind(buffers[each.name])
        self.graph.execute(self.inputs, self.outputs)


class RawModel:
    """All shards restored, with their caches."""

    def __init__(self, folder: Path, *, kind: str) -> None:
        self.sizes = Sizes(**json.loads((folder / "sizes.json").read_text("utf-8")))
        self._stack, package = ExitStack(), find_built(folder / "package", backend="htp")
        runtime = find_runtime("htp", kind=kind)
        backend = self._stack.enter_context(BackendHandle(Interface.load(runtime.path)))
        backend.register(package.library, package.provider)
        self.shards: list[dict[str, Bound]] = []
        for shard in range(self.sizes.shards):
            binary = (folder / f"forward_{shard}.bin").read_bytes()
            context = self._stack.enter_context(backend.restore(binary))
            infos = binary_info(runtime.system, binary).graphs
            self.shards.append({info.name: Bound(context.retrieve(info.name), info) for info in infos})
        zeros = np.zeros(self.sizes.cache)
        self.caches = [
            [bytearray(graphs[KV].grid(name).store(zeros).tobytes()) for name in ("key", "value")]
            for graphs in self.shards
        ]

    def __enter__(self) -> RawModel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def embed(self, embedded: Array) -> bytearray:
        """Return the first hidden state in the format of the first shard."""
        return bytearray(self.shards[0][KV].grid("hidden").store(embedded).tobytes())

    def run(self, shard: int, hidden: bytearray, position: int) -> dict[str, bytearray]:
        """Run one shard on a hidden state; return the buffers of all tensors.  The new caches replace the old ones."""
        row = 2 * self.sizes.width
        count = len(hidden) // row
        graph = self.shards[shard][KV if count == 1 else PREFILL]
        past_key, past_value = self.caches[shard]
        buffers = {
            "hidden": hidden,
            "mask": bytearray(graph.grid("mask").store(mask(self.sizes, count, position)).tobytes()),
            "position": bytearray(np.int32(position).tobytes()),
            "past_key": past_key,
            "past_value": past_value,
        }
        graph.run(buffers | {each.name: bytearray(each.nbytes) for each in graph.outputs if each.name not in buffers})
        self.caches[shard] = [graph.buffers["key"], graph.buffers["value"]]
        return graph.buffers

    def real(self, shard: int, name: str, buffer: bytearray) -> Array:
        """Return a tensor as real numbers, one row after the other."""
        infos = self.shards[shard][KV].infos
        stored = np.frombuffer(buffer, np.uint8 if infos[name].dtype.endswith("_8") else np.uint16)
        return self.shards[shard][KV].grid(name).real(stored.reshape(-1, infos[name].shape[-1]))


def steps(found: Array, expected: Array, grid: Grid, rows: int) -> int:
    """Return the largest difference in the first rows, in steps of 8 or 16 bits."""
    return round(float(np.abs(found[:rows] - expected.reshape(found.shape)[:rows]).max() / grid.quant.scale))


def follow(raw: RawModel, model: Model, prompt: list[int], *, alone: bool) -> dict[str, Any]:
    """Run a prompt and the tokens after it; with `alone` each shard gets numpy's output for the shard before it."""
    report: dict[str, Any] = {"tokens": [], "expected": [], "gaps": [], "hidden": [], "logits": [], "cache": []}
    tokens, position, rows = padded(raw.sizes, prompt), 0, len(prompt)
    for _ in range(TOKENS):
        logits = model.forward(tokens, position)
        hidden, apart = raw.embed(model.embed(tokens, position)), []
        for shard, graphs in enumerate(raw.shards):
            grid = graphs[KV].grid
            buffers = raw.run(shard, hidden, position)
            hidden, made = buffers["hidden_out"], model.made[shard]
            apart.append(steps(raw.real(shard, "hidden_out", hidden), made["hidden_out"], grid("hidden"), rows))
            for at, name in enumerate(("key", "value")):
                found = raw.real(shard, name, raw.caches[shard][at]).reshape(raw.sizes.cache)[0, :, : position + rows]
                report["cache"].append(steps(found, made[name][0, :, : position + rows], grid(name), raw.sizes.heads))
            if alone:
                hidden = bytearray(grid("hidden").store(made["hidden_out"]).tobytes())
                raw.caches[shard] = [bytearray(grid(name).store(made[name]).tobytes()) for name in ("key", "value")]
        report["hidden"].append(apart)
        last = raw.sizes.shards - 1
        found = raw.real(last, "logits", buffers["logits"])
        report["logits"].append(steps(found, logits, raw.shards[last][KV].grid("logits"), rows))
        report["tokens"].append(int(found[rows - 1].argmax()))
        report["expected"].append(int(logits[rows - 1].argmax()))
        *_, second, first = np.sort(logits[rows - 1])
        report["gaps"].append(round(float(first - second) / raw.shards[last][KV].grid("logits").quant.scale))
        tokens, position, rows = report["expected"][-1:], position + rows, 1
    return report


def main() -> None:
    """`llm_drive.py KIND DIR OUT`."""
    kind, folder, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    os.dup2(2, 1)  # libQnnHtp writes to stdout
    report: dict[str, Any] = {"alone": [], "chained": []}
    for prompt in PROMPTS:
        for way, texts in report.items():
            with RawModel(folder, kind=kind) as raw:
                texts.append(follow(raw, rounded(raw.sizes), prompt, alone=way == "alone"))
    out.write_text(json.dumps(report), "utf-8")


if __name__ == "__main__":
    main()
