"""The expected outputs of the ops of faulty/Faulty.xml, for inputs that reveal their faults, and the cause of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from udogen.verify.tolerances import EXACT, Tolerance

Array = np.ndarray[Any, np.dtype[Any]]
Quants = Mapping[str, tuple[float, int]]


@dataclass(frozen=True)
class Fault:
    """An op, its reference in real numbers, and the name of its kernel's fault."""

    op: str
    cause: str
    reference: Callable[..., Array]
    inputs: Mapping[str, Array]
    params: Mapping[str, float] = field(default_factory=dict)
    quants: Quants = field(default_factory=dict)
    dtype: str = "float32"  # of the output
    tolerance: Tolerance = Tolerance(1e-5, 1e-5)  # noqa: RUF009  (immutable)
    backends: tuple[str, ...] = ("cpu",)

    def outputs(self, inputs: Mapping[str, Array], params: Mapping[str, Any], quants: Quants) -> dict[str, Array]:
        """Return the reference as a runner calls it."""
        real = {
            name: (array.astype(np.float64) + quants[name][1]) * quants[name][0] if name in quants else array
            for name, array in inputs.items()
        }
        return {"y": np.asarray(self.reference(*real.values(), **params))}


def softmax(x: Array, axis: int = -1) -> Array:
    shifted = np.exp(x - x.max(axis=axis, keepdims=True))
    return shifted / shifted.sum(axis=axis, keepdims=True)


def leaky_relu(x: Array, alpha: float = 0.01) -> Array:
    return np.where(x > 0, x, np.float32(alpha) * x)


def hard_clip(x: Array, low: float = -1.0, high: float = 1.0) -> Array:
    return np.clip(x, np.float32(low), np.float32(high))


def add_bytes(a: Array, b: Array) -> Array:
    return np.minimum(a.astype(np.uint16) + b, 255).astype(np.uint8)


def maximum(a: Array, b: Array) -> Array:
    return np.maximum(a, b)


def faults() -> list[Fault]:
    """Return all faults."""
    random = np.random.default_rng(2026)

    def normal(*shape: int) -> Array:
        return random.normal(size=shape).astype(np.float32)

    def positive(*shape: int) -> Array:
        return random.uniform(0.1, 1, shape).astype(np.float32)

    every = np.arange(256, dtype=np.uint8).reshape(1, 8, 32)
    shuffled = random.permutation(256).astype(np.uint8).reshape(1, 8, 32)
    both = {"backends": ("cpu", "htp")}
    u8: dict[str, Any] = {"dtype": "uint8", "tolerance": EXACT, **both}
    near: dict[str, Any] = {**u8, "tolerance": Tolerance(1)}
    some_nan = normal(6, 20)
    some_nan[2, 3:9] = np.nan

    return [
        Fault("ChannelGain", "layout", lambda x, gain: x * gain, {"x": normal(1, 4, 6, 3), "gain": normal(3)}),
        Fault("MeanOfImage", "layout", lambda x: x.mean((1, 2)), {"x": normal(2, 4, 6, 5)}),
        Fault("SoftmaxAlong", "axis", softmax, {"x": normal(3, 4, 5)}, {"axis": -1}),
        Fault("CumulateRows", "axis", lambda x: x.cumsum(-1), {"x": normal(3, 4, 5)}),
        Fault("Quantize", "rounding", lambda x: x, {"x": normal(4, 50)}, quants={"y": (0.03, -120)}, **u8),
        Fault("Halve", "rounding", lambda x: x / 2, {"x": every}, quants={"x": (0.25, -9), "y": (0.25, -100)}, **u8),
        Fault("Relu", "zero-point", lambda x: np.maximum(x, 0), {"x": every},
              quants={"x": (0.05, -100), "y": (0.04, -20)}, **near),
        Fault("AddBytes", "slip", add_bytes, {"a": every, "b": shuffled}, **u8),
        Fault("WrapBytes", "", lambda a, b: a + b, {"a": every, "b": shuffled}, **u8),
        Fault("Squares", "unwritten-tail", np.square, {"x": normal(3, 45)}),
        Fault("InvertBytes", "unwritten-tail", lambda x: 255 - x, {"x":
              random.integers(0, 200, (4, 300), np.uint8)}, **u8),
        Fault("CountCalls", "varying", lambda x: x + 1, {"x": random.integers(0, 200, (4, 30), np.uint8)}, **u8),
        Fault("RowSums", "varying", lambda x: x.sum(-1), {"x": positive(8, 4000)}),
        Fault("MatMul", "uninitialised", lambda a, b: a @ b, {"a": normal(6, 9), "b": normal(9, 5)}),
        Fault("Positive", "uninitialised", lambda x: np.maximum(x, 0), {"x": normal(4, 10)}),
        Fault("LongDots", "", lambda a, b: (a * b).sum(-1), {"a": positive(6, 1024), "b": positive(6, 1024)}),
        Fault("Divide", "swapped-inputs", lambda a, b: a / b, {"a": positive(40), "b": positive(40)}),
        Fault("LeakyRelu", "missing-param", leaky_relu, {"x": normal(5, 9)}, {"alpha": 0.3}),
        Fault("HardClip", "", hard_clip, {"x": normal(9, 9)}, {"low": -0.5, "high": 0.5}),
        Fault("Largest", "off-by-one", lambda x: x.max(-1), {"x": np.sort(normal(8, 7), -1)}),
        Fault("PlainSoftmax", "slip", softmax, {"x": 60 * normal(6, 20)}),
        Fault("Maximum", "slip", maximum, {"a": some_nan, "b": normal(6, 20)}),
        Fault("Nearly", "", np.tanh, {"x": normal(1, 4, 6, 8)}),
    ]  # fmt: skip
