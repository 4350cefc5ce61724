"""One HTP package of twelve ops: all data types, tensor parameters, defaults, five inputs and three outputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.making import KERNELS, ROOT, htp_package, op_session
from udogen.runtime.built import Built
from udogen.runtime.op.request import CallOptions, make_call

RANDOM = np.random.default_rng(12)
SHAPE = (1, 4, 5, 6)
F = RANDOM.standard_normal(SHAPE).astype(np.float32)
H = RANDOM.standard_normal(SHAPE).astype(np.float16)
U8 = RANDOM.integers(0, 256, SHAPE).astype(np.uint8)
U16 = RANDOM.integers(0, 65536, SHAPE).astype(np.uint16)
I32 = RANDOM.integers(-1000, 1000, SHAPE).astype(np.int32)
S8 = RANDOM.integers(-127, 128, SHAPE).astype(np.int8)
S16 = RANDOM.integers(-16000, 16000, SHAPE).astype(np.int16)
BOOLS = RANDOM.integers(0, 2, SHAPE).astype(bool)
ROW = np.array([7, -8, 9], np.int32)
WEIGHTS = RANDOM.standard_normal((6, 3)).astype(np.float32)
Q8, Q16 = (0.05, -100), (0.001, -30000)


def real(stored: np.ndarray, quant: tuple[float, int]) -> np.ndarray:
    return (np.float32(quant[0]) * (stored.astype(np.int32) + quant[1]).astype(np.float32)).astype(np.float32)


def stored(values: np.ndarray, quant: tuple[float, int], dtype: type) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.clip(np.rint(values / np.float32(quant[0])) - quant[1], limits.min, limits.max).astype(dtype)


FIVE = F + H.astype(np.float32) + real(U8, Q8) + I32.astype(np.float32) + real(U16, Q16)
BIAS = np.array([1, 2, 3], np.float32)[np.arange(F.size) % 3].reshape(SHAPE)

# (op, options, expected outputs, allowed error in steps)
CASES: list[tuple[str, CallOptions, dict[str, np.ndarray], float]] = [
    (
        "FiveThree",
        CallOptions(
            {"a": F, "b": H, "c": U8, "d": I32, "e": U16},
            quants={"c": Q8, "e": Q16, "least": Q8},
        ),
        {
            "sum": 2 * FIVE,
            "least": stored(np.minimum(real(U8, Q8), real(U16, Q16)), Q8, np.uint8),
            "whole": I32 - 3,
        },
        1e-3,
    ),
    ("FiveThree", CallOptions(
        {"a": F, "b": H, "c": U8, "d": I32, "e": U16},
        params={"scale": 0.5, "offset": 40},
        quants={"c": Q8, "e": Q16, "least": Q8},
    ), {"sum": 0.5 * FIVE, "whole": I32 + 40}, 1e-3),
    ("Scale", CallOptions({"x": F}), {"y": F * 0.5}, 1e-6),
    ("Scale", CallOptions({"x": F[0, 0]}, params={"by": -3.0}), {"y": F[0, 0] * -3}, 1e-6),
    ("HalfSquare", CallOptions({"x": H}), {"y": H * H}, 2e-3),
    ("Widen", CallOptions({"x": U8}, quants={"x": Q8, "y": Q16}), {"y": stored(real(U8, Q8), Q16, np.uint16)}, 1),
    ("AddRow", CallOptions({"x": I32}, params={"row": ROW}), {
        "y": I32 + ROW[np.arange(I32.size) % 3].reshape(SHAPE),
    }, 0),
    ("Bias", CallOptions({"x": F}), {"y": F + BIAS}, 1e-6),
    ("Bias", CallOptions({"x": F}, params={"bias": np.float32([5, 0, -5, 1])}), {
        "y": F + np.float32([5, 0, -5, 1])[np.arange(F.size) % 4].reshape(SHAPE)
    }, 1e-6),
    ("Signed8", CallOptions({"x": S8}, quants={"x": (0.1, 0), "y": (0.1, 0)}), {"y": -S8}, 0),
    ("Signed16", CallOptions({"x": S16}, quants={"x": (0.1, 5), "y": (0.1, 10)}), {"y": 2 * S16}, 1),
    ("Bytes", CallOptions({"x": U8}), {"y": U8 & 15}, 0),
    ("Bytes", CallOptions({"x": U8}, params={"mask": 240, "invert": True}), {"y": ~U8 & 240}, 0),
    ("Select", CallOptions({"which": BOOLS, "a": F, "b": -F}), {"y": np.where(BOOLS, F, -F)}, 0),
    ("Matrix", CallOptions({"x": F}, params={"weights": WEIGHTS}), {"y": F @ WEIGHTS}, 1e-5),
    ("Matrix", CallOptions({"x": F}, params={"weights": WEIGHTS, "mode": 0}), {"y": F @ WEIGHTS + 1}, 1e-5),
    ("Cast", CallOptions({"x": F}, dtypes={"y": "INT_32"}), {"y": np.rint(F).astype(np.int32)}, 0),
    ("Cast", CallOptions({"x": I32}, dtypes={"y": "FLOAT_16"}), {"y": I32.astype(np.float16)}, 0),
    ("Cast", CallOptions({"x": H}, quants={"y": Q16}, dtypes={"y": "UFIXED_POINT_16"}), {
        "y": stored(H.astype(np.float32), Q16, np.uint16)
    }, 1),
]  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    config = ROOT / "tests" / "configs" / "Twelve.xml"
    made = htp_package(config, tmp_path_factory.mktemp("twelve"), KERNELS / "twelve")
    assert made.folder is not None and len(made.folder.ops) == 12
    return made


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: f"{CASES[number][0]}-{number}")
@pytest.mark.parametrize("kind", ["real", "emulator"])
def test_every_op_with_its_types(number: int, built: Built, kind: str) -> None:
    """The bytes in both runtimes are equal for random calls, too: tests/emulator/test_equality.py."""
    op, options, expected, tolerance = CASES[number]
    session = op_session(built, "htp", kind)
    shapes = {name: tuple(array.shape) for name, array in expected.items()}
    call = make_call(built.op(op, "htp"), built, op, replace(options, shapes=shapes))
    outputs = session.run(call).outputs
    for name, array in expected.items():
        assert outputs[name].dtype == (array.dtype if array.dtype != np.int64 else np.int32)
        difference = np.abs(outputs[name].astype(np.float64) - array.astype(np.float64)).max()
        # the tolerance is relative for floats; a fixed-point step is constant
        scale = max(1.0, float(np.abs(array).max())) if array.dtype.kind == "f" else 1.0
        assert difference <= tolerance * scale, name
    if kind == "emulator":
        real = op_session(built, "htp", "real").run(call).outputs
        assert {name: each.tobytes() for name, each in real.items()} == {
            name: each.tobytes() for name, each in outputs.items()
        }
    if op == "FiveThree" or kind == "emulator":
        binary = session.run(replace(call, save_context=True)).context
        restored = session.run(replace(call, context=binary)).outputs
        for name in expected:
            np.testing.assert_array_equal(restored[name], outputs[name])
