"""The model in numpy: with plain numbers, to measure their ranges; and rounded as the graphs store them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from network import BYTES, MASKED, SAME_GRID, Sizes, block, embeddings, weights
from reference import cache_write, rms_norm, swiglu

from udogen.runtime.quantization import ScaleOffset, dequantize, grid_of, quantize

Array = np.ndarray[Any, np.dtype[Any]]
Keep = Callable[[str, Array], Array]
SEED = 2026
ROOM = 1.1  # grids extend beyond the ranges that were measured


@dataclass(frozen=True)
class Grid:
    """What a fixed-point tensor can hold: its type, and what the stored numbers mean."""

    dtype: str
    quant: ScaleOffset

    def store(self, real: Array) -> Array:
        """The nearest numbers of the grid, as they are stored."""
        return quantize(real, self.quant, "u1" if self.dtype.endswith("_8") else "u2")

    def real(self, stored: Array) -> Array:
        """The real numbers that stored numbers represent."""
        return dequantize(stored, self.quant)


def grid(low: float, high: float, bits: int) -> Grid:
    """The grid from `low` to `high`; zero is one of its numbers."""
    dtype = f"UFIXED_POINT_{bits}"
    return Grid(dtype, grid_of(low, high, dtype))


def softmax(x: Array) -> Array:
    """Exponentials along the last axis, scaled so that they sum to one."""
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


OPS: dict[str, Callable[..., Array]] = {
    "MatMul": lambda a, b, transpose_in1: a @ (b.swapaxes(-1, -2) if transpose_in1 else b),
    "ElementWiseAdd": np.add,
    "Softmax": softmax,
    "Transpose": np.transpose,
    "RmsNorm": rms_norm,
    "SwiGlu": swiglu,
    "CacheWrite": lambda past, rows, position: cache_write(past, rows, int(position[0])),
}
MOVES = ("Reshape", "Transpose")  # they keep the grid of their input


@dataclass
class Numpy:
    """The ops of a block on arrays of real numbers; `keep` may round the values of a tensor."""

    inputs: dict[str, Array]
    weights: dict[str, Array]
    keep: Keep
    made: dict[str, Array] = field(default_factory=dict)

    def _hold(self, name: str, value: Array) -> Array:
        self.made[name] = self.keep(name, value)
        return self.made[name]

    def input(self, name: str, shape: tuple[int, ...]) -> Array:
        given = self.inputs[name]
        assert given.shape == shape, name
        return given if name == "position" else self._hold(name, given)

    def weight(self, name: str) -> Array:
        return self._hold(name, self.weights[name])

    def op(self, kind: str, inputs: list[Array], name: str, shape: tuple[int, ...], **params: Any) -> Array:
        value = inputs[0].reshape(shape) if kind == "Reshape" else OPS[kind](*inputs, *params.values())
        assert value.shape == shape, name
        return value if kind in MOVES else self._hold(name, value)


def mask(sizes: Sizes, tokens: int, position: int) -> Array:
    """The mask that is added to the scores: each token sees itself and the tokens before it."""
    seen = np.arange(sizes.context) <= position + np.arange(tokens)[:, None]
    return np.where(seen, 0.0, MASKED)[None, None]


@dataclass
class Model:
    """The whole model with its caches; `keep` of a shard may round the values of its tensors."""

    sizes: Sizes = field(default_factory=Sizes)
    seed: int = SEED
    keep: Callable[[int], Keep] = field(default=lambda shard: lambda name, value: value)

    def __post_init__(self) -> None:
        self.weights = [weights(self.sizes, shard, self.seed) for shard in range(self.sizes.shards)]
        self.words, self.places = embeddings(self.sizes, self.seed)
        self.caches = [[np.zeros(self.sizes.cache)] * 2 for _ in range(self.sizes.shards)]
        self.made: list[dict[str, Array]] = [{} for _ in range(self.sizes.shards)]

    def embed(self, tokens: list[int], position: int) -> Array:
        """The first hidden state."""
        return (self.words[tokens] + self.places[position : position + len(tokens)])[None]

    def forward(self, tokens: list[int], position: int) -> Array:
        """Run all shards for these tokens; return a row of logits for each token."""
        hidden = self.embed(tokens, position)
        for shard in range(self.sizes.shards):
            past_key, past_value = self.caches[shard]
            inputs = {
                "hidden": hidden,
                "mask": mask(self.sizes, len(tokens), position),
                "position": np.array([position]),
                "past_key": past_key,
                "past_value": past_value,
            }
            ops = Numpy(inputs, self.weights[shard], self.keep(shard))
            block(ops, self.sizes, len(tokens), last=shard == self.sizes.shards - 1)
            hidden, self.made[shard] = ops.made["hidden_out"], ops.made
            self.caches[shard] = [ops.made["key"], ops.made["value"]]
        return ops.made["logits"][0]

    def generate(self, prompt: list[int], count: int) -> list[int]:
        """The most likely tokens after a prompt."""
        logits = self.forward(padded(self.sizes, prompt), 0)[len(prompt) - 1]
        made = [int(logits.argmax())]
        while len(made) < count:
            logits = self.forward(made[-1:], len(prompt) + len(made) - 1)[0]
            made.append(int(logits.argmax()))
        return made


def padded(sizes: Sizes, prompt: list[int]) -> list[int]:
    """A prompt, padded to the length that prefill_forward takes; its tokens do not see the padding."""
    if not 0 < len(prompt) <= sizes.prefill:
        raise ValueError(f"a prompt has 1 to {sizes.prefill} tokens, not {len(prompt)}")
    return prompt + [0] * (sizes.prefill - len(prompt))


@cache
def grids(sizes: Sizes = Sizes(), seed: int = SEED) -> list[dict[str, Grid]]:  # noqa: B008 - it is frozen
    """The grids of each shard's tensors, from the values that the model computes for some random texts."""
    seen: list[dict[str, tuple[float, float]]] = [{} for _ in range(sizes.shards)]

    def watch(shard: int) -> Keep:
        def keep(name: str, value: Array) -> Array:
            name = SAME_GRID.get(name, name)
            low, high = seen[shard].get(name, (0.0, 0.0))
            seen[shard][name] = min(low, float(value.min())), max(high, float(value.max()))
            return value

        return keep

    random = np.random.default_rng([seed, 2])
    for _ in range(6):
        model = Model(sizes, seed, watch)
        model.forward(random.integers(0, sizes.vocabulary, sizes.prefill).tolist(), 0)
        model.forward(random.integers(0, sizes.vocabulary, sizes.context - sizes.prefill).tolist(), sizes.prefill)
    # Hidden states pass from shard to shard unchanged, so all shards have the same grid for them.
    ends = [shard["hidden"] for shard in seen]
    hidden = min(low for low, _ in ends), max(high for _, high in ends)
    known = set(weights(sizes, 0, seed))
    made = []
    for shard in seen:
        rows = {
            name: grid(low, high, 8) if name in known else grid(low * ROOM, high * ROOM, 8 if name in BYTES else 16)
            for name, (low, high) in {**shard, "hidden": hidden}.items()
        }
        rows["shares"] = grid(0.0, 1.0, 16)
        made.append({**rows, **{other: rows[name] for other, name in SAME_GRID.items() if name in rows}})
    return made


def rounded(sizes: Sizes = Sizes(), seed: int = SEED) -> Model:  # noqa: B008
    """The model as the graphs compute it: the numbers of every tensor are rounded to its grid."""

    def keep(shard: int) -> Keep:
        rows = grids(sizes, seed)[shard]
        return lambda name, value: rows[name].real(rows[name].store(value))

    return Model(sizes, seed, keep)
