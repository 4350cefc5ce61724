"""Every kind of argument of a GPU kernel, compared with numpy: the emulator on OpenCL runs it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from udogen.runtime.built import Built
from udogen.runtime.op.request import CallOptions, make_call
from udogen.runtime.ops import OpSession

RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(3, 8)).astype(np.float32)
WEIGHTS = np.array([1.5, -2.0, 0.5], np.float32)
PICTURE = RANDOM.normal(size=(2, 3, 4, 8)).astype(np.float32)
PARTS = RANDOM.integers(-99, 99, (3, 2, 5)).astype(np.int32)


@pytest.fixture(scope="module")
def session(kinds: Built) -> Iterator[OpSession]:
    with OpSession(kinds.library, kinds.provider, backend="gpu", timeout=120) as opened:
        yield opened


def combined(bias: float = 0.0, scale: float = 2, offset: int = -3, flag: bool = True, extra: int = 6) -> np.ndarray:
    value = scale * X + offset if flag else X
    factors = WEIGHTS[np.arange(X.size) % 3].reshape(X.shape)
    return ((value + bias) * factors + extra).astype(np.float32)


CASES = {
    "defaults": ("Combine", {"x": X}, {"weights": WEIGHTS}, combined()),
    "numbers": (
        "Combine",
        {"x": X},
        {"weights": WEIGHTS, "scale": 0.5, "offset": 7, "table": np.array([4, 5], np.int32)},
        combined(scale=0.5, offset=7, extra=9),
    ),
    "truth": ("Combine", {"x": X}, {"weights": WEIGHTS, "flag": "false"}, combined(flag=False)),
    "enumeration": ("Combine", {"x": X}, {"weights": WEIGHTS, "mode": "NEGATE"}, -combined()),
    "optional input": ("Combine", {"x": X, "bias": X + 1}, {"weights": WEIGHTS}, combined(bias=X + 1)),
    "repeated input": ("Sum", {f"kernel.{i}": part for i, part in enumerate(PARTS)}, {}, PARTS.sum(0)),
    "two kernels": ("Rows", {"x": X}, {}, X / np.abs(X).sum(1, keepdims=True)),
    "four at a time": ("Picture", {"x": PICTURE}, {}, PICTURE + 1),
    "a text in C++": ("Text", {"x": X}, {}, 3 * X),
}


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_gets_what_its_op_passes(session: OpSession, kinds: Built, name: str) -> None:
    op, inputs, params, expected = CASES[name]
    result = session.run(make_call(kinds.op(op, "gpu"), kinds, op, CallOptions(inputs, params)))
    [found] = result.outputs.values()
    assert np.abs(found - expected).max() <= (1e-5 if found.dtype == np.float32 else 0)


def test_a_file_of_a_text_in_cpp_is_not_written(kinds: Built) -> None:
    assert kinds.folder is not None
    made = {path.name for path in (kinds.folder.path / "src/ops").iterdir()}
    assert "Text.cpp" in made and "Text.cl" not in made
