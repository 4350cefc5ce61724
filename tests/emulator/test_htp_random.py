"""Random graphs of one op: the real libQnnHtp and the htp emulator give the same bytes, or both refuse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.making import KERNELS, ROOT, htp_package
from udogen.errors import RunFailed
from udogen.runtime import OpSession
from udogen.runtime.built import Built
from udogen.runtime.op.request import CallOptions, make_call

GRAPHS = 200
shapes = st.lists(st.integers(1, 9), min_size=1, max_size=5).map(tuple)
shapes_4d = st.lists(st.integers(1, 9), min_size=4, max_size=4).map(tuple)
quants = st.tuples(st.sampled_from([0.01, 0.1, 1.0]), st.integers(-200, 0))


@pytest.fixture(scope="module")
def twelve(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return htp_package(ROOT / "tests/configs/Twelve.xml", tmp_path_factory.mktemp("twelve"), KERNELS / "twelve")


@pytest.fixture(scope="module")
def sessions(twelve: Built) -> Iterator[list[OpSession]]:
    library, provider = Path(twelve.library), twelve.provider
    with (
        OpSession(library, provider, backend="htp", runtime_kind="real", timeout=60) as real,
        OpSession(library, provider, backend="htp", runtime_kind="emulator", timeout=60) as ours,
    ):
        yield [real, ours]


def array(draw: Any, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return (random.standard_normal(shape) * 5).astype(kind)
    if kind.kind == "b":
        return random.integers(0, 2, shape).astype(kind)
    if kind.itemsize == 4:
        return random.integers(-(2**20), 2**20, shape).astype(kind)
    return random.integers(np.iinfo(kind).min, int(np.iinfo(kind).max) + 1, shape).astype(kind)


@st.composite
def graphs(draw: Any) -> tuple[str, CallOptions]:
    """One op of the package, with inputs, quantization and parameters."""
    op = draw(
        st.sampled_from(["Scale", "HalfSquare", "Widen", "AddRow", "Bias", "Signed8", "Signed16", "Bytes", "Cast"])
    )
    four = op in ("AddRow", "Bias") and draw(st.integers(0, 3)) > 0  # they take rank 4 alone
    shape, params, dtypes = draw(shapes_4d if four else shapes), {}, {}
    dtype = {"HalfSquare": "f2", "Widen": "u1", "AddRow": "i4", "Signed8": "i1", "Signed16": "i2", "Bytes": "u1"}.get(
        op, "f4"
    )
    fixed: dict[str, tuple[float, int]] = {}
    if op in ("Widen", "Signed8", "Signed16"):
        fixed = {"x": draw(quants), "y": draw(quants)}
    if op == "Scale" and draw(st.booleans()):
        params = {"by": draw(st.floats(-4, 4, width=32))}
    if op == "AddRow":
        params = {"row": array(draw, "i4", (draw(st.integers(1, 5)),))}
    if op == "Bias" and draw(st.booleans()):
        params = {"bias": array(draw, "f4", (draw(st.integers(1, 5)),))}
    if op == "Bytes" and draw(st.booleans()):
        params = {"mask": draw(st.integers(0, 255)), "invert": draw(st.booleans())}
    if op == "Cast":
        dtype = draw(st.sampled_from(["f4", "f2", "i4"]))
        dtypes = {"y": draw(st.sampled_from(["FLOAT_32", "FLOAT_16", "INT_32", "UFIXED_POINT_16"]))}
        if dtypes["y"] == "UFIXED_POINT_16":
            fixed = {"y": draw(quants)}
    x = array(draw, dtype, shape)
    return op, CallOptions({"x": x}, params=params, quants=fixed, dtypes=dtypes, shapes={"y": shape})


def answer(session: OpSession, built: Built, op: str, options: CallOptions) -> dict[str, bytes] | str:
    try:
        found = session.run(make_call(built.op(op, "htp"), built, op, options)).outputs
    except RunFailed:
        return "refused"
    return {name: each.tobytes() for name, each in found.items()}


def test_random_graphs_give_the_same_bytes(twelve: Built, sessions: list[OpSession]) -> None:
    ran: list[str] = []

    @settings(max_examples=GRAPHS, deadline=None, derandomize=True, database=None)
    @given(graph=graphs())
    def holds(graph: tuple[str, CallOptions]) -> None:
        real, ours = (answer(session, twelve, *graph) for session in sessions)
        assert real == ours
        if real != "refused":
            ran.append(graph[0])

    holds()
    assert len(ran) >= GRAPHS // 2 and len(set(ran)) == 9
