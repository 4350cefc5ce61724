"""The same library returns the same bytes in Qualcomm's runtime and in the emulator: random graphs of one op."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.making import KERNELS, ROOT, cpu_package, htp_package, need_runtime
from udogen import RunFailed
from udogen.runtime.built import Built
from udogen.runtime.op.request import CallOptions, make_call
from udogen.runtime.ops import OpCall, OpSession

Draw = Callable[[st.SearchStrategy[object]], object]
EXAMPLES = settings(derandomize=True)
NUMPY = {
    "FLOAT_32": np.float32,
    "FLOAT_16": np.float16,
    "INT_32": np.int32,
    "UINT_32": np.uint32,
    "UINT_8": np.uint8,
    "BOOL_8": np.bool_,
    "UFIXED_POINT_8": np.uint8,
    "SFIXED_POINT_8": np.int8,
    "UFIXED_POINT_16": np.uint16,
    "SFIXED_POINT_16": np.int16,
}
FLOATS = st.floats(-4, 4, width=32)
SHAPES = st.lists(st.integers(1, 6), min_size=1, max_size=5).map(tuple)
FOUR = st.lists(st.integers(1, 6), min_size=4, max_size=4).map(tuple)


class Both(NamedTuple):
    """One package in both runtimes."""

    built: Built
    backend: str
    sessions: list[OpSession]

    def check(self, op: str, options: CallOptions) -> None:
        """Check that the same call returns the same bytes, or is refused by both."""
        call = make_call(self.built.op(op, self.backend), self.built, op, options)
        real, emulated = (self._run(session, call) for session in self.sessions)
        assert real == emulated
        assume(real is not None)  # hypothesis fails if most calls are refused

    @staticmethod
    def _run(session: OpSession, call: OpCall) -> dict[str, bytes] | None:
        try:
            return {name: each.tobytes() for name, each in session.run(call).outputs.items()}
        except RunFailed:
            return None


def opened(built: Built, backend: str) -> Iterator[Both]:
    with ExitStack() as stack:
        sessions = [
            stack.enter_context(OpSession(built.library, built.provider, backend=backend, runtime=kind, timeout=60))
            for kind in ("real", "emulator")
        ]
        yield Both(built, backend, sessions)


def array(seed: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return numbers of a type; those of 8 and 16 bits use its whole range."""
    random, kind = np.random.default_rng(seed), np.dtype(NUMPY[dtype])
    if kind.kind == "f":
        return (3 * random.standard_normal(shape)).astype(kind)
    if kind.kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    if kind.itemsize == 4:
        return random.integers(0 if kind.kind == "u" else -1000, 1000, shape).astype(kind)
    return random.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, shape).astype(kind)


def quant(draw: Draw, dtype: str) -> tuple[float, int] | None:
    """Draw scale and offset, if the type has them."""
    if "FIXED" not in dtype:
        return None
    scale = draw(st.sampled_from([0.02, 0.05, 0.1])) if dtype.endswith("_8") else 0.001
    offset = 0 if dtype[0] == "S" else draw(st.sampled_from([0, -100] if dtype.endswith("_8") else [0, -30000]))
    return float(scale), int(offset)  # type: ignore[call-overload]


def some(draw: Draw, params: dict[str, st.SearchStrategy[object]]) -> dict[str, object]:
    """Draw parameters, each of which may be omitted."""
    return {name: draw(each) for name, each in params.items() if draw(st.booleans())}


# --- CPU ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    need_runtime("cpu")
    folder = tmp_path_factory.mktemp("equality")
    yield from opened(
        cpu_package(ROOT / "tests/configs/Equality.xml", folder, ROOT / "tests/emulator/kernels/cpu"), "cpu"
    )


CPU_TYPES = ("FLOAT_32", "INT_32", "UINT_32", "UINT_8", "BOOL_8", "UFIXED_POINT_8")


@st.composite
def mixes(draw: Draw) -> CallOptions:
    """Draw a call of Mix: any type into any type, optional and repeated inputs, parameters of all kinds."""
    shape, seed = draw(st.lists(st.integers(1, 6), min_size=1, max_size=5).map(tuple)), draw(st.integers(0, 9999))
    types = {name: draw(st.sampled_from(CPU_TYPES)) for name in ("x", "y")}
    inputs = {"x": array(seed, shape, types["x"])}
    if draw(st.booleans()):
        inputs["bias"] = array(seed + 1, (draw(st.integers(1, 5)),), "FLOAT_32")
    for index in range(draw(st.integers(1, 3))):
        inputs[f"parts.{index}"] = array(seed + 2 + index, draw(SHAPES), "FLOAT_32")
    row = st.lists(FLOATS, min_size=1, max_size=4).map(np.float32)
    params = some(draw, {"scale": FLOATS, "shift": st.integers(-50, 50), "negate": st.booleans(), "row": row})
    quants = {name: found for name, dtype in types.items() if (found := quant(draw, dtype))}
    return CallOptions(inputs, params=params, quants=quants, dtypes=types, shapes={"y": shape, "seen": (8,)})


@given(options=mixes())
@EXAMPLES
def test_cpu(on_cpu: Both, options: CallOptions) -> None:
    on_cpu.check("Mix", options)


# --- HTP ------------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """An op of tests/configs/Twelve.xml, and its arguments."""

    op: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    shapes: st.SearchStrategy[tuple[int, ...]] = SHAPES
    params: dict[str, st.SearchStrategy[object]] = {}  # noqa: RUF012 never modified
    always: dict[str, st.SearchStrategy[object]] = {}  # noqa: RUF012


WORDS = st.lists(st.integers(-50, 50), min_size=1, max_size=5).map(np.int32)
BIASES = st.lists(FLOATS, min_size=1, max_size=5).map(np.float32)
CASTS = ("FLOAT_32", "FLOAT_16", "UFIXED_POINT_8", "UFIXED_POINT_16", "INT_32")
FIVE = dict(zip("abcde", ("FLOAT_32", "FLOAT_16", "UFIXED_POINT_8", "INT_32", "UFIXED_POINT_16"), strict=True))
THREE = {"sum": "FLOAT_32", "least": "UFIXED_POINT_8", "whole": "INT_32"}
ROWS = [
    Row("FiveThree", FIVE, THREE, FOUR, {"scale": FLOATS, "offset": st.integers(-50, 50)}),
    Row("Scale", {"x": "FLOAT_32"}, {"y": "FLOAT_32"}, params={"by": FLOATS}),
    Row("HalfSquare", {"x": "FLOAT_16"}, {"y": "FLOAT_16"}),
    Row("Widen", {"x": "UFIXED_POINT_8"}, {"y": "UFIXED_POINT_16"}),
    Row("AddRow", {"x": "INT_32"}, {"y": "INT_32"}, always={"row": WORDS}),
    Row("Bias", {"x": "FLOAT_32"}, {"y": "FLOAT_32"}, FOUR, {"bias": BIASES}),
    Row("Signed8", {"x": "SFIXED_POINT_8"}, {"y": "SFIXED_POINT_8"}),
    Row("Signed16", {"x": "SFIXED_POINT_16"}, {"y": "SFIXED_POINT_16"}),
    Row("Bytes", {"x": "UINT_8"}, {"y": "UINT_8"}, params={"mask": st.integers(0, 255), "invert": st.booleans()}),
    Row("Select", {"which": "BOOL_8", "a": "FLOAT_32", "b": "FLOAT_32"}, {"y": "FLOAT_32"}, FOUR),
    *(Row("Cast", {"x": a}, {"y": b}) for a in CASTS for b in CASTS),
]


@st.composite
def twelve(draw: Draw) -> tuple[str, CallOptions]:
    """Draw a call of one of eleven ops; Matrix, whose shapes depend on each other, has separate examples."""
    row, seed = draw(st.sampled_from(ROWS)), draw(st.integers(0, 9999))
    shape = draw(row.shapes)
    types = {**row.inputs, **row.outputs}
    inputs = {name: array(seed + i, shape, dtype) for i, (name, dtype) in enumerate(row.inputs.items())}
    params = {**some(draw, row.params), **{name: draw(each) for name, each in row.always.items()}}
    quants = {name: found for name, dtype in types.items() if (found := quant(draw, dtype))}
    return row.op, CallOptions(
        inputs, params=params, quants=quants, dtypes=types, shapes=dict.fromkeys(row.outputs, shape)
    )


@pytest.fixture(scope="module")
def on_htp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("twelve")
    yield from opened(htp_package(ROOT / "tests/configs/Twelve.xml", folder, KERNELS / "twelve"), "htp")


@given(case=twelve())
@EXAMPLES
def test_htp(on_htp: Both, case: tuple[str, CallOptions]) -> None:
    on_htp.check(*case)
