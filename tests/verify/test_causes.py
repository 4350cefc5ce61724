"""Causes, found in the outputs of numpy kernels: each has one fault, or none."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from udogen import Case, RunFailed
from udogen.error_tables import number_causes
from udogen.verify.cases import Origin
from udogen.verify.diagnosis import positions
from udogen.verify.diagnosis.causes import diagnose
from udogen.verify.diagnosis.wrong_output import FailedCase, half_away, store
from udogen.verify.results import Finding
from udogen.verify.tolerances import Tolerance

Array = np.ndarray[Any, np.dtype[Any]]
Kernel = Callable[..., Array]
Quants = Mapping[str, tuple[float, int]]
RANDOM = np.random.default_rng(7)


def floats(*shape: int) -> Array:
    return RANDOM.normal(size=shape).astype(np.float32)


def of_reals(function: Kernel) -> Callable[..., dict[str, Array]]:
    """Return a reference in the form of test files: a function of real numbers."""

    def reference(inputs: Mapping[str, Array], params: Mapping[str, object], quants: Quants) -> dict[str, Array]:
        real = {name: read(array, quants.get(name)) for name, array in inputs.items()}
        return {"y": function(*real.values(), **params)}

    return reference


def read(array: Array, quant: tuple[float, int] | None) -> Array:
    return array if quant is None else (array.astype(np.float64) + quant[1]) * quant[0]


def findings(
    reference: Kernel,
    kernel: Kernel,
    inputs: Mapping[str, Array],
    *,
    params: Mapping[str, object] | None = None,
    quants: Quants | None = None,
    dtype: Any = np.float32,
    rerun: Any = None,
    absolute: float = 1e-5,
    relative: float = 0.0,
    **more: Any,
) -> list[Finding]:
    """Return what is found if the kernel runs instead of the reference; the kernel gets the stored values."""
    params, quants = params or {}, quants or {}
    reply = of_reals(reference)(inputs, params, quants)["y"]
    expected = store(reply, np.dtype(dtype), quants.get("y"))
    found = np.asarray(kernel(*inputs.values(), **params))

    def again(*, poison: int = 0, inputs: Any = inputs) -> dict[str, Array]:
        try:
            return {"y": np.asarray(kernel(*inputs.values(), **params))}
        except ValueError as problem:
            raise RunFailed(str(problem)) from problem

    tolerance = Tolerance(absolute, relative)
    case = failed(inputs, expected, tolerance, of_reals(reference), params=params, quants=quants)
    return [*diagnose(FailedCase(case, {"y": found}, rerun=rerun or again, **more))]


def causes(*args: Any, **more: Any) -> list[str]:
    """Return the names of what is found."""
    return [each.kind for each in findings(*args, **more)]


def failed(
    inputs: Mapping[str, Array], expected: Array, tolerance: Tolerance, reference: Any = None, **more: Any
) -> Case:
    origin = Origin(lambda _shapes: None, reference, lambda: None) if reference else None
    return Case("case", "Op", inputs, {"y": expected}, tolerance=tolerance, origin=origin, **more)


def softmax(x: Array, axis: int = -1) -> Array:
    shifted = np.exp(x - x.max(axis=axis, keepdims=True))
    return shifted / shifted.sum(axis=axis, keepdims=True)


# --- one fault each -----------------------------------------------------------------------------------


def read_as_nchw(x: Array) -> Array:
    n, h, w, c = x.shape
    return x.reshape(n, c, h, w).mean(axis=(2, 3))


def plain_softmax(x: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


def scaled(x: Array, alpha: float = 1.0, beta: float = 0.5) -> Array:
    return np.where(x > 0, alpha * x, beta * x)


SOME_NAN = floats(64)
SOME_NAN[5:9] = np.nan
WIDE = np.linspace(-200, 200, 64, dtype=np.float32).reshape(4, 16)
PARAMS = {"params": {"alpha": 0.7, "beta": 0.1}}

# (cause, reference, kernel, inputs `a` and `b`, options); after a cause with … others may follow.
FAULTS: list[tuple[str, Kernel, Kernel, tuple[Array, ...], Mapping[str, Any]]] = [
    ("layout", lambda a: 2 * a, lambda a: np.ascontiguousarray((2 * a).transpose(0, 3, 1, 2)).reshape(a.shape),
     (floats(1, 4, 6, 3),), {}),
    ("layout …", lambda a: a.mean(axis=(1, 2)), read_as_nchw, (floats(2, 4, 6, 5),), {}),
    ("axis …", softmax, lambda a, axis: softmax(a, 1), (floats(3, 4, 5),), {"params": {"axis": 2}}),
    ("axis …", softmax, lambda a: softmax(a, 1), (floats(3, 4, 5),), {}),
    ("axis …", lambda a: a.sum(1), lambda a: a.sum(0), (floats(4, 4, 5),), {}),
    ("off-by-one", lambda a: a.sum(-1), lambda a: a[..., :-1].sum(-1), (floats(6, 9),), {}),
    ("swapped-inputs …", lambda a, b: a - b, lambda a, b: b - a, (floats(40), floats(40)), {}),
    ("slip", softmax, plain_softmax, (WIDE,), {}),
    ("slip", lambda a: np.maximum(a, 0), lambda a: np.where(a > 0, a, 0), (SOME_NAN,), {}),
    ("precision", np.tanh, lambda a: np.tanh(a).astype(np.float16).astype(np.float32), (floats(50),),
     {"absolute": 1e-6}),
    ("missing-param …", scaled, lambda a, alpha, beta: scaled(a, alpha), (floats(50),), PARAMS),
    ("copy", np.tanh, lambda a: a, (floats(50),), {}),
    ("copy", np.tanh, lambda a: 0 * a, (floats(50),), {}),
]  # fmt: skip


@pytest.mark.parametrize(("cause", "reference", "kernel", "inputs", "more"), FAULTS)
def test_one_fault(cause: str, reference: Kernel, kernel: Kernel, inputs: tuple[Array, ...], more: Any) -> None:
    found = causes(reference, kernel, dict(zip("ab", inputs, strict=False)), **more)
    assert found[0] == cause.removesuffix(" …")
    assert cause.endswith("…") or len(found) == 1


# One operation of a kernel that is another one in the reference: (reference, kernel, what is printed of it).
A, B, W = floats(5, 5), floats(5, 5), floats(5)
SLIPS: list[tuple[Kernel, Kernel, tuple[Array, ...], str]] = [
    (lambda a, b: a * b + 1, lambda a, b: a + b + 1, (A, B), "`add` in place of `multiply`"),
    (lambda a, b: (a + b) * b, lambda a, b: (a - b) * b, (A, B), "`subtract` in place of `add`"),
    (lambda a, b: np.exp(a - b), lambda a, b: np.exp(b - a), (A, B), "inputs `a` and `b` are swapped"),
    (lambda a: 3 / (a * a + 2), lambda a: (a * a + 2) / 3, (A,), "`divide` with its operands exchanged"),
    (lambda a: np.tanh(a * 3 - 2), lambda a: np.tanh(a * 3 + 2), (A,), "`add` in place of `subtract`"),
    (lambda a: np.tanh(a + 2) * 3, lambda a: np.tanh(a + 2) * -3, (A,), "-3 in place of 3"),
    (lambda a: np.exp(-0.5 * a), lambda a: np.exp(0.5 * a), (A,), "0.5 in place of -0.5"),
    (lambda a, w: a + w * a.max(0), lambda a, w: a + w * a.max(1), (A, W), "`maximum` along axis 1"),
    (lambda a, w: a + w * a.max(0), lambda a, w: a + w * a.min(0), (A, W), "`minimum` in place of `maximum`"),
    (lambda a: np.maximum(a, 0.1) * 2, lambda a: np.minimum(a, 0.1) * 2, (A,), "`minimum` in place of `maximum`"),
    (lambda a: a.cumsum(1) + 1, lambda a: a.cumsum(0) + 1, (A,), "axis"),
    (lambda a: np.sqrt(np.abs(a).mean(1)), lambda a: np.sqrt(np.abs(a).sum(1)), (A,), "`divide` left out"),
    (lambda a: np.log(np.abs(a) + 1), lambda a: np.log2(np.abs(a) + 1), (A,), "`log2` in place of `log`"),
    (lambda a: np.log(np.abs(a) + 1) + a, lambda a: np.log2(np.abs(a) + 1) + a, (A,), "`log2` in place of `log`"),
]  # fmt: skip


@pytest.mark.parametrize(("reference", "kernel", "inputs", "what"), SLIPS, ids=[row[-1] for row in SLIPS])
def test_one_operation_is_another(reference: Kernel, kernel: Kernel, inputs: tuple[Array, ...], what: str) -> None:
    found = findings(reference, kernel, dict(zip("ab", inputs, strict=False)))
    assert found and what in found[0].message, found
    assert "also for new inputs" in found[0].evidence


# Kernels that, for these inputs alone, write what another fault would write; and NaN and infinity in one element.
ONE_NAN = floats(40)
ONE_NAN[7] = np.nan
COINCIDENCES: dict[str, tuple[Kernel, Kernel, tuple[Array, ...]]] = {
    "b is twice a": (lambda a, b: a + b, lambda a, b: b * b / (4 * a), (A, 2 * A)),
    "b is a": (lambda a, b: a * b, lambda a, b: a - b * b, (A, A)),
    "NaN becomes a number": (lambda a: 2 * a, lambda a: np.where(np.isnan(a), 1, 2 * a), (ONE_NAN,)),
    "a number becomes NaN": (lambda a: 2 * a, lambda a: np.where(a == a[3], np.nan, 2 * a), (floats(40),)),
    "a number becomes infinite": (lambda a: 2 * a, lambda a: np.where(a == a[3], np.inf, 2 * a), (floats(40),)),
}


@pytest.mark.parametrize("name", COINCIDENCES)
def test_a_coincidence_is_no_cause(name: str) -> None:
    reference, kernel, inputs = COINCIDENCES[name]
    assert causes(reference, kernel, dict(zip("ab", inputs, strict=False))) == []


# --- encodings ----------------------------------------------------------------------------------------

GRIDS = {"x": (0.05, -128), "y": (0.04, -90)}
STORED = {"x": np.arange(256, dtype=np.uint8).reshape(16, 16)}


def relu(x: Array) -> Array:
    return np.where(x > 0, x, 0.2 * x)


def fixed(*, grid_x: Any = GRIDS["x"], grid_y: Any = GRIDS["y"], rounding: Any = np.rint, wrap: bool = False) -> Kernel:
    def kernel(x: Array) -> Array:
        real = relu(read(x, grid_x).astype(np.float32)).astype(np.float32)
        return store(real, np.dtype(np.uint8), grid_y, rounding=rounding, wrap=wrap)

    return kernel


@pytest.mark.parametrize("rounding", [np.floor, np.trunc, np.ceil])
def test_roundings(rounding: Any) -> None:
    found = causes(relu, fixed(rounding=rounding), STORED, quants=GRIDS, dtype=np.uint8, absolute=0)
    assert found == ["rounding"]


def test_half_away_from_zero() -> None:
    grids = {"x": (0.25, -128), "y": (0.5, -128)}
    kernel = fixed(grid_x=grids["x"], grid_y=grids["y"], rounding=half_away)

    def reference(x: Array) -> Array:
        return np.where(x > 0, x, np.float32(0.2) * x.astype(np.float32))

    assert causes(reference, kernel, STORED, quants=grids, dtype=np.uint8, absolute=0) == ["rounding"]


@pytest.mark.parametrize(
    "grids", [{"grid_x": (0.05, 0)}, {"grid_x": (0.05, 128)}, {"grid_y": (0.04, 90)}, {"grid_y": (0.04, 0)}]
)
def test_zero_points(grids: Any) -> None:
    found = causes(relu, fixed(**grids), STORED, quants=GRIDS, dtype=np.uint8, absolute=1)
    assert found[:1] == ["zero-point"]


@pytest.mark.parametrize("wrap", [False, True])
def test_stored_numbers_in_place_of_real_ones(wrap: bool) -> None:
    grids = {"x": (0.05, -128), "y": (0.03, -20)}

    def reference(x: Array) -> Array:
        return x * 1.5 + 40

    kernel = lambda x: store(np.trunc(reference(x.astype(np.float64))), np.dtype(np.uint8), (1.0, 0), wrap=wrap)  # noqa: E731
    assert causes(reference, kernel, STORED, quants=grids, dtype=np.uint8, absolute=1) == ["stored-numbers"]


def test_wrapping_around() -> None:
    grids = {"x": (0.05, -128), "y": (0.02, -30)}
    kernel = fixed(grid_y=grids["y"], wrap=True)
    assert causes(relu, kernel, STORED, quants=grids, dtype=np.uint8, absolute=1) == ["saturation"]


# --- memory -------------------------------------------------------------------------------------------


def poisoned(reply: Array, mask: Array, *, adds: bool = False) -> Any:
    """Return a rerun of the op in which the marked elements are not written, or added to."""

    def again(*, poison: int = 0, inputs: Any = None) -> dict[str, Array]:
        before = np.full(reply.nbytes, poison, np.uint8).view(reply.dtype).reshape(reply.shape)
        return {"y": np.where(mask, reply + before if adds else before, reply)}

    return again


def test_an_unwritten_tail() -> None:
    x = floats(2, 100)
    tail = np.arange(200).reshape(2, 100) >= 192
    rerun = poisoned(np.tanh(x), tail)
    assert causes(np.tanh, lambda x: rerun()["y"], {"x": x}, rerun=rerun) == ["unwritten-tail"]
    rows = np.broadcast_to(np.arange(100) >= 96, (2, 100))
    rerun = poisoned(np.tanh(x), rows)
    assert causes(np.tanh, lambda x: rerun()["y"], {"x": x}, rerun=rerun) == ["unwritten-tail"]


def test_memory_that_is_not_written_or_read() -> None:
    x = floats(4, 25)
    middle = np.zeros((4, 25), bool)
    middle[1, 3:9] = True
    for adds in (False, True):
        rerun = poisoned(np.tanh(x), middle, adds=adds)
        assert causes(np.tanh, lambda x: np.where(middle, 0, np.tanh(x)), {"x": x}, rerun=rerun) == ["uninitialised"]


def test_a_race() -> None:
    x, random = floats(4, 25), np.random.default_rng(1)

    def kernel(x: Array) -> Array:
        return np.where(random.random(x.shape) < 0.2, 0, np.tanh(x))

    assert causes(np.tanh, kernel, {"x": x})[0] == "varying"


# --- no cause -----------------------------------------------------------------------------------------


def test_a_right_kernel_has_no_cause() -> None:
    assert causes(softmax, softmax, {"x": floats(4, 25)}) == []


def test_an_op_that_cannot_run_again_has_no_cause() -> None:
    def rerun(**_: Any) -> dict[str, Array]:
        raise RunFailed("it crashed")

    assert causes(np.abs, lambda x: np.roll(np.abs(x), 1, -1), {"x": floats(6, 9)}, rerun=rerun) == []


def test_numbers_from_elsewhere_are_compared_without_their_reference() -> None:
    """A file of golden numbers: they do not come from the reference, so it is not called."""
    x = floats(6, 9)
    case = failed({"x": x}, x + 1, Tolerance(1e-5), lambda *_: {"y": 0 * x})
    found = {"y": (x + 1).astype(np.float16).astype(np.float32)}
    assert [each.kind for each in diagnose(FailedCase(case, found))] == ["precision"]


def quick_tanh(x: Array) -> Array:
    return x * (27 + x * x) / (27 + 9 * x * x)


def seeded(x: Array) -> Array:
    return np.random.default_rng(3).normal(size=x.shape)


ORDINARY: dict[str, tuple[Kernel, Kernel]] = {
    "noise": (np.tanh, lambda x: np.tanh(x) + 1e-4 * seeded(x)),
    "relative noise": (softmax, lambda x: softmax(x) * (1 + 1e-3 * seeded(x))),
    "an approximation": (np.tanh, quick_tanh),
    "a slightly wrong constant": (lambda x: x * 1.5957691, lambda x: x * np.float32(1.5976)),
    "some wrong elements": (np.tanh, lambda x: np.where(seeded(x) < -1.3, 0.5, np.tanh(x))),
    "something else": (np.tanh, lambda x: np.sin(3 * x)),
    "one wrong element": (np.tanh, lambda x: np.where(np.arange(x.size).reshape(x.shape) == 5, 1, np.tanh(x))),
}  # fmt: skip


@pytest.mark.parametrize("shape", [(96,), (8, 12), (1, 4, 6, 8)])
@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_inaccuracy_has_no_cause(name: str, shape: tuple[int, ...]) -> None:
    reference, kernel = ORDINARY[name]

    def reply(x: Array) -> Array:
        return kernel(x).astype(np.float32)

    assert causes(reference, reply, {"x": np.random.default_rng(5).normal(size=shape).astype("f4")}) == []


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_ordinary_inaccuracy_of_fixed_point_has_no_cause(seed: int, steps: int) -> None:
    random = np.random.default_rng(seed)

    def kernel(x: Array) -> Array:
        right = fixed()(x).astype(int)
        return np.clip(right + random.integers(-steps, steps + 1, x.shape), 0, 255).astype(np.uint8)

    found = causes(relu, kernel, STORED, quants=GRIDS, dtype=np.uint8, absolute=0, rerun=_never)
    assert found == []


def _never(**_: Any) -> dict[str, Array]:
    raise RunFailed("not again")


def test_an_output_that_is_not_written_at_all() -> None:
    x = floats(2, 10)
    rerun = poisoned(np.tanh(x), np.ones((2, 10), bool))
    case = failed({"x": x}, np.tanh(x), Tolerance(1e-5))
    found = diagnose(FailedCase(case, rerun(poison=0x5A), rerun=rerun))
    assert [(each.kind, each.message) for each in found] == [
        ("uninitialised", "no element of the output `y` is written")
    ]


def test_every_cause_has_a_row_and_every_row_a_detector() -> None:
    rows = number_causes()
    trees = [ast.parse(path.read_text("utf-8")) for path in Path(positions.__file__).parent.glob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    assert rows.keys() <= {node.value for node in nodes if isinstance(node, ast.Constant)}
    assert all(row.text and row.remedy for row in rows.values())
