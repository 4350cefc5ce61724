"""Everything that a kernel can declare to HTP in addition to `execute`, in Qualcomm's HTP emulator and in udogen's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.making import (
    KERNELS,
    ONE_KERNEL,
    ONE_OP,
    ROOT,
    close_op_sessions,
    htp_package,
    make_packages,
    op_session,
    refused,
)
from udogen import RunFailed
from udogen.runtime.built import Built
from udogen.runtime.op.calls import OpResult
from udogen.runtime.op.request import CallOptions, make_call

X = np.arange(48, dtype=np.float32).reshape(1, 2, 3, 8)
Q = np.arange(256, dtype=np.uint8).reshape(1, 4, 8, 8)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return htp_package(ROOT / "tests" / "configs" / "Hooks.xml", tmp_path_factory.mktemp("hooks"), KERNELS / "hooks")


@pytest.fixture(params=["real", "emulator"])
def kind(request: pytest.FixtureRequest) -> str:
    """The runtime; udogen's emulator rewrites no graph."""
    return str(request.param)


def run(built: Built, op: str, x: np.ndarray, loops: int = 1, kind: str = "real", **more: object) -> OpResult:
    quants = {"x": (0.1, -10), "y": (0.1, -10)} if x.dtype == np.uint8 else {}
    params = {name: value for name, value in more.items() if not isinstance(value, np.ndarray)}
    inputs = {"x": x, **{name: value for name, value in more.items() if isinstance(value, np.ndarray)}}
    options = CallOptions(inputs, params=params, quants=quants, loops=loops)
    return op_session(built, "htp", kind).run(make_call(built.op(op, "htp"), built, op, options))


def test_slices_cover_everything_once(built: Built, kind: str) -> None:
    np.testing.assert_array_equal(run(built, "Sliced", X, loops=3, kind=kind).outputs["y"], X * 2)


@pytest.mark.parametrize("power", [2, 3])
def test_what_is_prepared_once_serves_each_execution(built: Built, power: int, kind: str) -> None:
    real = ((Q.astype(np.float32) - 10) * np.float32(0.1)) ** power
    stored = np.clip(np.rint(real / np.float32(0.1)) + 10, 0, 255)
    found = run(built, "Prepared", Q, loops=5, kind=kind, power=power).outputs["y"].astype(np.float32)
    assert np.abs(found - stored).max() <= 1  # float32 powers on both sides, rounded at halves


def test_preparation_may_fail(built: Built, kind: str) -> None:
    with refused("power 9 is too high"):
        run(built, "Prepared", Q, kind=kind, power=9)


@pytest.mark.parametrize(
    ("x", "kernel"),
    [
        (X[..., :3], 1),  # the condition holds
        (Q, 2),  # the type that the second accepts
        (X, 3),
    ],
)
def test_the_first_kernel_that_fits_runs(built: Built, x: np.ndarray, kernel: int, kind: str) -> None:
    found = run(built, "Chosen", x, kind=kind).outputs["y"].astype(np.float32)
    real = (found - 10) * np.float32(0.1) if x.dtype == np.uint8 else found
    np.testing.assert_allclose(real, np.full(x.shape, kernel), atol=1e-6)


def test_an_op_is_rewritten_before_and_after_tiling(built: Built) -> None:
    np.testing.assert_array_equal(run(built, "Twice", X, add=10.0).outputs["y"], X + 13)
    np.testing.assert_array_equal(run(built, "Twice", X).outputs["y"], X + 4)
    np.testing.assert_array_equal(run(built, "Late", X).outputs["y"], X + 1)


def test_a_rewrite_may_refuse(built: Built, kind: str) -> None:
    np.testing.assert_array_equal(run(built, "Refused", X, kind=kind).outputs["y"], X)
    with pytest.raises(RunFailed, match="five columns are too many"):
        run(built, "Refused", X[..., :5], kind=kind)


def test_tiles_serve_what_does_not_fit_in_tcm(built: Built, kind: str) -> None:
    large = np.random.default_rng(5).standard_normal((1, 256, 256, 64), np.float32)
    row = np.arange(64, dtype=np.float32).reshape(1, 1, 1, 64)
    found = run(built, "Tiled", large, kind=kind, row=row).outputs["y"]
    np.testing.assert_allclose(found, large * 3 + row, rtol=1e-6, atol=1e-6)
    found = run(built, "Tiled", X, kind=kind, row=row[..., :8], scale=2.0).outputs["y"]
    np.testing.assert_allclose(found, X * 2 + row[..., :8])
    if kind == "real":  # udogen's emulator has no TCM
        with pytest.raises(RunFailed, match="does not fit in TCM") as output:
            run(built, "Untiled", large)
        assert "op.tiles" in output.value.hint


@pytest.mark.parametrize("shape", [(1, 8, 8, 32), (1, 9, 9, 33), (1, 3, 20, 64)])
def test_a_kernel_may_ask_for_blocks(built: Built, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(6).integers(0, 256, shape, np.uint8)
    np.testing.assert_array_equal(run(built, "Blocks", x).outputs["y"], x)


def test_a_kernel_may_write_over_its_input(built: Built, kind: str) -> None:
    np.testing.assert_array_equal(run(built, "InPlace", X, kind=kind).outputs["y"], X * X)


@pytest.mark.parametrize(
    ("op", "x", "more"),
    [
        ("Prepared", Q, {"power": 2}),
        ("Prepared", Q, {"power": 3}),
        ("Chosen", Q, {}),
        ("Tiled", X, {"row": X[:, :1, :1], "scale": 2.0}),
    ],
)
def test_numbers_that_are_rounded_are_the_same_bytes_in_both(
    built: Built, op: str, x: np.ndarray, more: dict[str, object]
) -> None:
    real, own = (run(built, op, x, kind=kind, **more).outputs["y"] for kind in ("real", "emulator"))
    assert real.tobytes() == own.tobytes()


def test_what_is_counted(built: Built) -> None:
    """Calls of kernels, one per tile; and a node that a rewrite replaces, at preparation."""
    close_op_sessions()  # counts from the start of a worker
    large, row = np.zeros((1, 256, 256, 64), np.float32), np.zeros((1, 1, 1, 64), np.float32)
    prepared = run(built, "Prepared", Q, loops=5, power=2)
    tiled, twice, late = run(built, "Tiled", large, row=row), run(built, "Twice", X), run(built, "Late", X, loops=3)
    proofs = [each.proof for each in (prepared, tiled, twice, late)]
    assert [proof and proof.executed for proof in proofs] == [True] * 4
    assert [proof and proof.of_op for proof in proofs[::2]] == [(0, 0, 5), (0, 1, 1)]
    tiles = proofs[1]
    assert tiles is not None and tiles.of_op.ready == 0
    assert tiles.of_op.after > 1
    assert proofs[3] is not None and proofs[3].sentence == (
        "Late: taken by HookPackage when the graph was prepared: its own rewrite replaced the node, or HTP "
        "computed it as a constant; then 3 kernel calls of its ops"
    )


def test_a_package_has_the_code_that_its_kernels_and_its_ops_need(tmp_path: Path) -> None:
    """Code for hooks, and for the order of parameters; each arrives when the package is generated again."""
    text = ONE_OP.read_text("utf-8").replace("<SupportedBackend>CPU<", "<SupportedBackend>HTP<")
    config = tmp_path / "One.xml"
    config.write_text(text, "utf-8")

    def generated() -> tuple[Path, bool, bool]:
        [made] = make_packages([config], tmp_path / "out", kernels=ONE_KERNEL)
        header, support = made.folder / "include/udogen.hpp", made.folder / "src/udogen_htp.cpp"
        return made.folder, "class Kernel {" in header.read_text(), "class ValidatedNodes {" in support.read_text()

    folder, has_hooks, has_order = generated()
    assert (has_hooks, has_order) == (False, False)
    kernel = folder / "src/ops/LeakyRelu.cpp"
    kernel.write_text(
        kernel.read_text() + "\nvoid ops::LeakyReluPackage::LeakyRelu::hooks(Hooks& op) { op.sameTypes(); }\n"
    )
    assert generated()[1:] == (True, False)
    one = text[text.index("<Parameter>") : text.index("</Parameter>") + len("</Parameter>")]
    config.write_text(text.replace(one, one + one.replace("alpha", "beta")), "utf-8")
    assert generated()[1:] == (True, True)
