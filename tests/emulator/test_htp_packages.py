"""HTP packages in the emulator: the same library as in the real libQnnHtp returns the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.generate.test_twelve_ops import CASES
from tests.making import KERNELS, ROOT, htp_package, op_session, refused
from udogen.runtime import OpSession
from udogen.runtime.built import Built
from udogen.runtime.op.calls import OpResult
from udogen.runtime.op.request import CallOptions, make_call

X = np.arange(48, dtype=np.float32).reshape(1, 2, 3, 8)
Q = np.arange(256, dtype=np.uint8).reshape(1, 4, 8, 8)
LARGE = np.random.default_rng(5).standard_normal((1, 256, 256, 64), np.float32)
ROW = np.arange(64, dtype=np.float32).reshape(1, 1, 1, 64)
KINDS = ("real", "emulator")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("packages")


@pytest.fixture(scope="module")
def twelve(folder: Path) -> Built:
    return htp_package(ROOT / "tests/configs/Twelve.xml", folder, KERNELS / "twelve")


@pytest.fixture(scope="module")
def both(twelve: Built) -> Iterator[list[OpSession]]:
    sessions = [OpSession(twelve.library, twelve.provider, backend="htp", runtime=k, timeout=60) for k in KINDS]
    with sessions[0], sessions[1]:
        yield sessions


def run(built: Built, op: str, options: CallOptions, kind: str) -> OpResult:
    return op_session(built, "htp", kind).run(make_call(built.op(op, "htp"), built, op, options))


def equal(built: Built, op: str, options: CallOptions) -> OpResult:
    """Check that both runtimes return the same bytes."""
    real, own = (run(built, op, options, kind) for kind in KINDS)
    assert own.runtime.emulator and own.runtime.name == "HTP_UDOGEN_EMULATOR"
    assert real.outputs.keys() == own.outputs.keys()
    for name, array in real.outputs.items():
        assert array.tobytes() == own.outputs[name].tobytes(), name
    return own


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: f"{CASES[number][0]}-{number}")
def test_twelve_ops_give_the_same_bytes(number: int, twelve: Built, both: list[OpSession]) -> None:
    op, options, expected, _ = CASES[number]
    shapes = {name: tuple(array.shape) for name, array in expected.items()}
    call = make_call(twelve.op(op, "htp"), twelve, op, replace(options, shapes=shapes))
    real, own = (session.run(call).outputs for session in both)
    for name, array in real.items():
        assert array.tobytes() == own[name].tobytes(), name
    binary = both[1].run(replace(call, save_context=True)).context
    again = both[1].run(replace(call, context=binary)).outputs
    for name, array in real.items():
        assert array.tobytes() == again[name].tobytes(), name


@pytest.mark.parametrize(
    ("op", "inputs", "params"),
    [
        ("Sliced", {"x": X}, {}),
        ("Prepared", {"x": Q}, {"power": 2}),
        ("Prepared", {"x": Q}, {"power": 3}),
        ("Chosen", {"x": X[..., :3]}, {}),
        ("Chosen", {"x": Q}, {}),
        ("Chosen", {"x": X}, {}),
        ("Refused", {"x": X}, {}),
        ("Tiled", {"x": LARGE, "row": ROW}, {}),
        ("Tiled", {"x": X, "row": ROW[..., :8].copy()}, {"scale": 2.0}),
        ("InPlace", {"x": X}, {}),
    ],
)
def test_hooks_give_the_same_bytes(
    hooks: Built, op: str, inputs: dict[str, np.ndarray], params: dict[str, object]
) -> None:
    quants = {"x": (0.1, -10), "y": (0.1, -10)} if inputs["x"].dtype == np.uint8 else {}
    equal(hooks, op, CallOptions(inputs, params=params, quants=quants, loops=2))


@pytest.mark.parametrize(
    ("op", "inputs", "params", "log_lines"),
    [
        ("Refused", {"x": X[..., :5].copy()}, {}, "five columns are too many"),
        ("Prepared", {"x": Q}, {"power": 9}, "power 9 is too high"),
    ],
)
def test_both_refuse(
    hooks: Built, op: str, inputs: dict[str, np.ndarray], params: dict[str, object], log_lines: str
) -> None:
    quants = {"x": (0.1, -10), "y": (0.1, -10)} if inputs["x"].dtype == np.uint8 else {}
    for kind in KINDS:
        with refused(log_lines):
            run(hooks, op, CallOptions(inputs, params=params, quants=quants), kind)
