"""A small language model of the usual kind, defined once: implementations of `Ops` compute it or build it."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, Protocol

import numpy as np

PREFILL, KV = "prefill_forward", "kv_forward"  # the two graphs of each shard

# The inputs and outputs of graphs; all other tensors are internal.
INPUTS = ("hidden", "mask", "position", "past_key", "past_value")
OUTPUTS = ("hidden_out", "key", "value", "logits")

# Tensors that share one grid (scale and offset), so that the bytes of one are valid for the other.
SAME_GRID = {"hidden_out": "hidden", "past_key": "key", "past_value": "value"}
BYTES = ("key", "value", "past_key", "past_value")  # fixed point of 8 bits, as weights are; activations have 16
MASKED = -64.0  # what the mask adds at hidden positions: far below every score


@dataclass(frozen=True)
class Sizes:
    """The sizes of the model."""

    shards: int = 8  # each with one block of the model
    width: int = 64
    heads: int = 2
    inner: int = 128  # the width inside of a feed-forward part
    context: int = 32  # how many tokens the cache holds
    prefill: int = 16  # how many tokens prefill_forward takes at once
    vocabulary: int = 64

    @property
    def head(self) -> int:
        """The width of one head."""
        return self.width // self.heads

    @property
    def graphs(self) -> dict[str, int]:
        """The graphs of a shard, and how many tokens each takes."""
        return {PREFILL: self.prefill, KV: 1}

    @property
    def cache(self) -> tuple[int, ...]:
        """The shape of a cache."""
        return 1, self.heads, self.context, self.head


class Ops(Protocol):
    """Computes or builds a block.  A value has a shape; `name` is the name of its tensor."""

    def input(self, name: str, shape: tuple[int, ...]) -> Any: ...
    def weight(self, name: str) -> Any: ...
    def op(self, kind: str, inputs: list[Any], name: str, shape: tuple[int, ...], **params: Any) -> Any:
        """An op of QNN, or of the package LlmPackage."""


def block(ops: Ops, sizes: Sizes, tokens: int, *, last: bool) -> None:
    """One shard: a block of the model for `tokens` tokens at once; the last one also computes logits."""
    hidden = ops.input("hidden", (1, tokens, sizes.width))
    mask = ops.input("mask", (1, 1, tokens, sizes.context))
    position = ops.input("position", (1,))

    def same(kind: str, inputs: list[Any], name: str, **params: Any) -> Any:
        return ops.op(kind, inputs, name, inputs[0].shape, **params)

    def matmul(a: Any, b: Any, name: str, *, transposed: bool = False) -> Any:
        shape = (*a.shape[:-1], b.shape[-2 if transposed else -1])
        return ops.op("MatMul", [a, b], name, shape, transpose_in1=transposed)

    def swap(x: Any, name: str) -> Any:
        first, second, third, fourth = x.shape
        return ops.op("Transpose", [x], name, (first, third, second, fourth), perm=(0, 2, 1, 3))

    def norm(x: Any, gain: str, name: str) -> Any:
        return same("RmsNorm", [x, ops.weight(gain)], name, epsilon=1e-6)

    def heads(of: str) -> Any:
        rows = matmul(normed, ops.weight(of), f"{of}_rows")
        parts = ops.op("Reshape", [rows], f"{of}_parts", (1, tokens, sizes.heads, sizes.head))
        return swap(parts, f"{of}_heads")

    normed = norm(hidden, "attention_gain", "attention_normed")
    queries = heads("queries")
    key = same("CacheWrite", [ops.input("past_key", sizes.cache), heads("keys"), position], "key")
    value = same("CacheWrite", [ops.input("past_value", sizes.cache), heads("values"), position], "value")
    scores = matmul(queries, key, "scores", transposed=True)
    shares = same("Softmax", [same("ElementWiseAdd", [scores, mask], "masked")], "shares")
    mixed = swap(matmul(shares, value, "mixed_heads"), "mixed_parts")
    mixed = ops.op("Reshape", [mixed], "mixed", (1, tokens, sizes.width))
    attended = same("ElementWiseAdd", [hidden, matmul(mixed, ops.weight("mix"), "attention")], "attended")

    normed = norm(attended, "inner_gain", "inner_normed")
    gate, up = matmul(normed, ops.weight("gate"), "gated"), matmul(normed, ops.weight("up"), "raised")
    down = matmul(same("SwiGlu", [gate, up], "inner"), ops.weight("down"), "lowered")
    hidden = same("ElementWiseAdd", [attended, down], "hidden_out")

    if last:
        matmul(norm(hidden, "last_gain", "last_normed"), ops.weight("words"), "logits")


def weights(sizes: Sizes, shard: int, seed: int) -> dict[str, np.ndarray]:
    """The weights of one shard: random, but scaled so that activations keep their size from block to block."""
    random = np.random.default_rng([seed, shard])
    width, inner = sizes.width, sizes.inner

    def matrix(rows: int, columns: int, size: float = 1.0) -> np.ndarray:
        return random.normal(scale=size / sqrt(rows), size=(rows, columns))

    def gain() -> np.ndarray:
        return random.uniform(0.5, 1.5, width)

    small = 1 / sqrt(2 * sizes.shards)
    return {
        "attention_gain": gain(),
        "queries": matrix(width, width, 2 / sqrt(sizes.head)),
        "keys": matrix(width, width),
        "values": matrix(width, width),
        "mix": matrix(width, width, 2 * small),
        "inner_gain": gain(),
        "gate": matrix(width, inner),
        "up": matrix(width, inner),
        "down": matrix(inner, width, 2 * small),
        "last_gain": gain(),
        "words": matrix(width, sizes.vocabulary, 3),
    }


def embeddings(sizes: Sizes, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """What each token, and each position, adds to the first hidden state; the client looks them up."""
    random = np.random.default_rng([seed, sizes.shards, 1])
    words = random.normal(size=(sizes.vocabulary, sizes.width))
    return words, random.normal(scale=0.5, size=(sizes.context, sizes.width))
