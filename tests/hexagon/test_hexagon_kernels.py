"""Kernels of every kind that QHPI has, as Hexagon code, compared with Qualcomm's HTP emulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.hexagon.running import Array, called, need_tools, on_hexagon, on_x86
from tests.making import ROOT, make_packages, make_well
from udogen import RunFailed
from udogen.backends import architectures
from udogen.runtime import OpFailed, OpRefused, Scalar
from udogen.runtime.built import Built, find_source
from udogen.runtime.hexagon.wire import KernelChoice
from udogen.runtime.op.request import CallOptions, make_call
from udogen.runtime.ops import OpCall


def test_the_first_record_that_fits_is_taken_unless_another_is_named(raw: Built) -> None:
    x = np.arange(4, dtype=np.uint8)
    assert on_hexagon(raw, called(raw, "Add", x, x)).kernel == "Add_main on main"
    assert on_hexagon(raw, called(raw, "Add", x, x), kernel=KernelChoice("Add_hvx")).kernel == "Add_hvx on hvx"
    with pytest.raises(OpRefused, match="op `Add` has no kernel record of that name or unit") as output:
        on_hexagon(raw, called(raw, "Add", x, x), kernel=KernelChoice("hmx"))
    assert output.value.details == ("it has Add_main (main), Add_hvx (hvx)",)


def test_packets_are_counted_and_repeat(raw: Built) -> None:
    x = np.arange(1 << 20, dtype=np.uint32).astype(np.uint8)
    call = called(raw, "Add", x, x)
    counted = {}
    for kernel in ("hvx", "main"):
        first, again = (on_hexagon(raw, call, kernel=KernelChoice(kernel), count=True).packets for _ in range(2))
        assert first is not None and first == again
        assert sum(packets for _, packets in first.functions) == first.total
        assert "addOn" in first.functions[0][0] or "addScalar" in first.functions[0][0]
        assert not any("udogen_" in name for name, _ in first.functions)
        counted[kernel] = first.total
    # All vectors are unaligned, which takes twice the packets of aligned ones.
    assert counted["main"] >= 80 * counted["hvx"], counted
    small = on_hexagon(raw, called(raw, "Add", x[:1], x[:1]), kernel=KernelChoice("main"), count=True).packets
    assert small is not None and 1 < small.total < 200


def test_packets_of_several_executions_are_not_counted(raw: Built) -> None:
    x = np.zeros(4, np.uint8)
    with pytest.raises(RunFailed, match="of one execution"):
        on_hexagon(raw, replace(called(raw, "Add", x, x), loops=2), count=True)


@pytest.mark.parametrize("slices", [1, 2, 4])
def test_slices_run_at_once(slices: int, raw: Built) -> None:
    """They wait for each other, in memory that is zeroed before each execution."""
    x = np.arange(12, dtype=np.int32)
    call = replace(called(raw, "Slices", x), loops=3)
    outputs = on_hexagon(raw, call, kernel=KernelChoice(slices=slices)).outputs["y"]
    assert outputs.tolist() == (x + 1 + np.arange(12) * slices // 12).tolist()
    if slices == 1:
        np.testing.assert_array_equal(on_x86(raw, call).outputs["y"], outputs)


@pytest.mark.parametrize(("op", "answer"), [("Prepared", [0, 6, 7]), ("PreparedInDdr", [0, 16, 17])])
def test_precomputation_has_no_data_but_constants_in_ddr(op: str, answer: list[int], raw: Built) -> None:
    x = np.array([5, 6, 7], np.int32)
    call = replace(called(raw, op, x, params=(Scalar("k", "INT_32", 10),)), loops=3)
    assert on_hexagon(raw, call).outputs["y"].tolist() == answer
    # The first value is the uninitialized input: undefined memory in libQnnHtp.
    np.testing.assert_array_equal(on_x86(raw, call).outputs["y"][1:], answer[1:])


def test_precomputation_may_fail(raw: Built) -> None:
    call = called(raw, "PreparedInDdr", np.zeros(3, np.int32), params=(Scalar("k", "INT_32", -1),))
    with pytest.raises(OpFailed, match=r"returned 2 \(QHPI_ErrorFatal\) in phase `precompute`"):
        on_hexagon(raw, call)


@pytest.mark.parametrize(("size", "answer"), [(9, 1), (8, 2)])
def test_conditions_are_asked(size: int, answer: int, raw: Built) -> None:
    call = called(raw, "Choosy", np.zeros(size, np.int32))
    assert on_hexagon(raw, call).outputs["y"].tolist() == [answer] * size
    np.testing.assert_array_equal(on_x86(raw, call).outputs["y"], [answer] * size)


# --- hooks() of a generated package -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Built:
    need_tools()
    kernels = ROOT / "tests" / "generate" / "kernels" / "hooks"
    [made] = make_packages(
        [ROOT / "tests" / "configs" / "Hooks.xml"], tmp_path_factory.mktemp("hooks"), kernels=kernels
    )
    make_well(made.folder, "htp_x86")
    return find_source(made.folder, backend="htp")


X = np.arange(48, dtype=np.float32).reshape(1, 2, 3, 8)
Q = np.arange(256, dtype=np.uint8).reshape(1, 4, 8, 8)


def hooked(built: Built, op: str, x: Array, **params: object) -> OpCall:
    quants = {"x": (0.1, -10), "y": (0.1, -10)} if x.dtype == np.uint8 else {}
    return make_call(built.op(op, "htp"), built, op, CallOptions({"x": x}, params=params, quants=quants, loops=2))


@pytest.mark.parametrize("slices", [1, 4])
def test_sliced_hooks(slices: int, hooks: Built) -> None:
    outputs = on_hexagon(hooks, hooked(hooks, "Sliced", X), kernel=KernelChoice(slices=slices)).outputs
    np.testing.assert_array_equal(outputs["y"], X * 2)


@pytest.mark.parametrize(
    ("op", "x"), [("Prepared", Q), ("Chosen", X), ("Chosen", X[..., :3]), ("Chosen", Q), ("InPlace", X)]
)
def test_hooks_do_what_they_do_in_qualcomms_emulator(op: str, x: Array, hooks: Built) -> None:
    params = {"power": 3} if op == "Prepared" else {}
    call = hooked(hooks, op, x, **params)
    np.testing.assert_array_equal(on_hexagon(hooks, call).outputs["y"], on_x86(hooks, call).outputs["y"])


def test_a_kernel_that_needs_blocks_is_refused(hooks: Built) -> None:
    with pytest.raises(OpRefused, match="has no kernel record that fits") as output:
        on_hexagon(hooks, hooked(hooks, "Blocks", Q))
    assert "QUInt8 a layout that is not flat" in "\n".join(output.value.details)


def test_a_call_that_no_record_takes(both: Built) -> None:
    call = make_call(None, both, "Mix", CallOptions({"x": np.ones((1, 2, 2, 2), np.int32)}))
    with pytest.raises(OpRefused, match="op `Mix` has no kernel record that fits these tensors") as output:
        on_hexagon(both, call)
    assert output.value.details[0] == "given: inputs Int32 Flat4; outputs Int32 Flat4"


@pytest.mark.parametrize("arch", [row.name for row in architectures.of_backend("htp").values() if row.open])
def test_every_architecture(arch: str, raw: Built) -> None:
    x = np.arange(1000).astype(np.uint8)
    for kernel in ("main", "hvx"):
        result = on_hexagon(raw, called(raw, "Add", x, x), arch=arch, kernel=KernelChoice(kernel))
        assert result.runtime.name.startswith(f"Hexagon {arch} under")
        np.testing.assert_array_equal(result.outputs["y"], np.minimum(x.astype(int) * 2, 255))
