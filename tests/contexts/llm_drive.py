"""In a separate process: each shard of the sharded model alone, compared with numpy after each step.

`llm_drive.py DIR OUT` writes the differences as JSON (test_sharded_llm.py).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from udogen import Model
from udogen.runtime import ModelDescription, OpLibrary, find_built
from udogen.runtime.quantization import dequantize, quantize

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "sharded_llm"))

from model import mask, padded, rounded  # noqa: E402
from network import KV, PREFILL, Sizes  # noqa: E402

# A whole prefill, and shorter ones.
PROMPTS = ([12, 21, 0, 38, 19, 23, 48, 56, 46, 10, 53, 1, 9, 6, 24, 33], [25, 45, 15, 35, 41, 27], [29])
TOKENS = 9  # the first one by prefill_forward, eight by kv_forward
SIZES = Sizes()
Array = np.ndarray[Any, np.dtype[Any]]


class Step(NamedTuple):
    """A step of numpy's model."""

    tokens: list[int]
    position: int
    rows: int  # tokens that are no padding
    hidden: Array  # the input of the first shard
    made: list[dict[str, Array]]  # the tensors of each shard


def steps_of(prompt: list[int]) -> Iterator[Step]:
    """Yield numpy's steps for a prompt and the tokens after it."""
    model, tokens, position, rows = rounded(), padded(SIZES, prompt), 0, len(prompt)
    for _ in range(TOKENS):
        hidden, logits = model.embed(tokens, position), model.forward(tokens, position)
        yield Step(tokens, position, rows, hidden, list(model.made))
        tokens, position, rows = [int(logits[rows - 1].argmax())], position + rows, 1


def compare(model: Model, step: Step, hidden: Array, shard: int) -> dict[str, Any]:
    """Execute a step of a shard; return the largest differences, in steps of 8 or 16 bits."""
    graph = KV if len(step.tokens) == 1 else PREFILL
    model.step(hidden=hidden, mask=mask(SIZES, len(step.tokens), step.position), position=step.position, graph=graph)
    tensors, found = model.tensors(graph), {"hidden": [], "cache": [], "logits": []}
    [stage] = model.wiring.chain(graph).stages
    for info in stage.outputs:
        expected = step.made[shard][info.name][0]
        real = dequantize(tensors[f"forward_{shard}.{info.name}"], info.quant).reshape(expected.shape)
        is_cache = info.name in ("key", "value")
        part = np.s_[:, : step.position + step.rows] if is_cache else np.s_[: step.rows]
        apart = round(float(np.abs(real - expected)[part].max() / info.quant.scale))
        found["cache" if is_cache else info.name.removesuffix("_out")].append(apart)
    return found


def alone(folder: Path, shard: int, steps: Sequence[Step]) -> list[dict[str, Any]]:
    """One shard gets what numpy's shard before it made, and numpy's caches."""
    package, results = find_built(folder / "package", backend="htp").library, []
    caches = {"past_key": "key", "past_value": "value"}
    described = ModelDescription((folder / f"forward_{shard}.bin",), (OpLibrary(package),), state=caches)
    with Model.open(described) as model:
        for step in steps:
            results.append(compare(model, step, step.made[shard - 1]["hidden_out"] if shard else step.hidden, shard))
            for state in model.wiring.states:
                made = step.made[shard][model.wiring.state[state.key]].reshape(state.info.shape)
                model.state[f"forward_{shard}.{state.key}"].copy_from(quantize(made, state.info.quant, "u1"))
    return results


def main() -> None:
    """`llm_drive.py DIR OUT`."""
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    os.dup2(2, 1)  # libQnnHtp writes to stdout
    prompts = [list(steps_of(prompt)) for prompt in PROMPTS]
    report = [alone(folder, shard, steps) for steps in prompts for shard in range(SIZES.shards)]
    out.write_text(json.dumps(report), "utf-8")


if __name__ == "__main__":
    main()
