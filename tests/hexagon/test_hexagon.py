"""Kernels as Hexagon code under qemu-hexagon, held against the same kernels in Qualcomm's HTP emulator."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.making import CONFIGS, ROOT, make, make_packages, udogen
from udogen.build import emulated, tools
from udogen.errors import BuildFailed, RunFailed, ToolMissing, UsageError
from udogen.opdef import backends
from udogen.runtime import OpCrashed, OpFailed, OpRefused, OpSession, OpTimedOut, find_runtime
from udogen.runtime.built import Built, find_built, find_source
from udogen.runtime.calls import OpCall, OpResult, ParamArg, TensorArg
from udogen.runtime.hexagon import HexagonSession
from udogen.runtime.hexagon_wire import ELEMENTS, Wanted, records
from udogen.runtime.request import Wishes, make_call
from udogen.verify.cases import load_examples
from udogen.verify.runner import run_cases

HERE = Path(__file__).parent
BOTH_KERNELS = ROOT / "tests" / "generate" / "kernels" / "both"
Array = np.ndarray[Any, np.dtype[Any]]


def need_tools() -> None:
    if not tools.zig() or not tools.program("qemu-hexagon"):
        pytest.skip("zig or qemu-hexagon is not installed")


def need_htp() -> None:
    try:
        find_runtime("htp")
    except ToolMissing as missing:
        pytest.skip(missing.message)


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A package whose records are written by hand, built for x86 too."""
    need_tools()
    [made] = make_packages([HERE / "Raw.xml"], tmp_path_factory.mktemp("raw"))
    shutil.copy(HERE / "tables.cpp", made.folder / "src" / "RawInterface.cpp")
    done = make(made.folder, "htp_x86", cxx="", flags="-Wno-unknown-pragmas")
    assert done.returncode == 0, done.stderr
    return find_source(made.folder, backend="htp")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A generated package with parameters of every kind."""
    need_tools()
    [made] = make_packages(
        [CONFIGS / "both.xml"], tmp_path_factory.mktemp("both"), chosen=["htp"], kernels=BOTH_KERNELS
    )
    assert make(made.folder, "htp_x86").returncode == 0
    return find_source(made.folder, backend="htp")


def on_hexagon(built: Built, call: OpCall, **options: Any) -> OpResult:
    assert built.folder is not None
    with HexagonSession(built.folder, **{"timeout": 60, **options}) as session:
        return session.run(call)


def on_x86(built: Built, call: OpCall) -> OpResult:
    assert built.folder is not None
    need_htp()
    library = find_built(built.folder.path, backend="htp")
    with OpSession(library.library, library.provider, backend="htp", timeout=60) as session:
        return session.run(call)


def called(built: Built, op: str, *inputs: Array, params: tuple[ParamArg, ...] = (), out: Any = None) -> OpCall:
    """A call of an op of Raw: INT_32 or UINT_8 tensors."""
    args = tuple(
        TensorArg(f"x{i}", "INT_32" if each.dtype == np.int32 else "UINT_8", each.shape, each)
        for i, each in enumerate(inputs)
    )
    return OpCall(op, built.package, args, (TensorArg("y", args[0].dtype, out or args[0].shape),), params)


# --- the examples ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["leaky_relu", "softmax"])
def test_the_examples_agree_with_numpy_and_with_qualcomms_emulator(name: str, tmp_path: Path) -> None:
    need_tools()
    need_htp()
    seen = set()
    for number, example in enumerate(load_examples(ROOT / "examples" / name)):
        cases = [case for case in example.cases if case.backend == "htp"]
        if not cases:
            continue
        [made] = make_packages([example.config], tmp_path / str(number), chosen=["htp"], kernels=example.kernels)
        assert make(made.folder, "htp_x86").returncode == 0
        built = find_source(made.folder, backend="htp")
        for outcome in run_cases(built, cases, backend="hexagon", loops=1):
            assert outcome.passed, (outcome.case.name, outcome.max_error)
            assert outcome.runtime.name.startswith("Hexagon v73 under qemu-hexagon ")
        for case in cases:
            shapes = {key: tuple(array.shape) for key, array in case.expected.items()}
            wishes = Wishes(case.inputs, params=case.params, quants=case.quants, shapes=shapes)
            call = make_call(built.op(case.op, "htp"), built, case.op, wishes)
            ours, theirs = on_hexagon(built, call).outputs, on_x86(built, call).outputs
            for key, array in theirs.items():
                seen.add(str(array.dtype))
                if array.dtype.kind == "f":
                    np.testing.assert_allclose(ours[key], array, rtol=2e-3 if array.itemsize == 2 else 1e-6, atol=1e-7)
                else:
                    np.testing.assert_array_equal(ours[key], array)
    assert seen >= ({"float32", "float16", "uint8", "uint16"} if name == "leaky_relu" else {"uint8"})


# --- tensors and parameters arrive as HTP delivers them ---------------------------------------------------------------


def test_the_table_of_elements_is_what_htp_delivers() -> None:
    assert set(ELEMENTS) == set(backends.ALL["htp"].delivers)


TYPES = [
    ("FLOAT_32", "f4", None), ("FLOAT_16", "f2", None), ("INT_32", "i4", None), ("UINT_32", "u4", None),
    ("UFIXED_POINT_8", "u1", (0.1, -3)), ("SFIXED_POINT_8", "i1", (0.1, -3)), ("UINT_8", "u1", None),
    ("INT_8", "i1", None), ("BOOL_8", "?", None), ("UFIXED_POINT_16", "u2", (0.1, -3)),
    ("SFIXED_POINT_16", "i2", (0.1, -5)), ("UINT_16", "u2", None), ("INT_16", "i2", None),
]  # fmt: skip
SCALARS = [
    ("FLOAT_32", 0.1), ("INT_32", -2), ("UINT_32", 2**32 - 1), ("BOOL_8", True), ("BOOL_8", False),
    ("UINT_8", 9), ("INT_8", -9), ("UINT_16", 9), ("INT_16", -9),
]  # fmt: skip


def same_everywhere(built: Built, call: OpCall) -> None:
    np.testing.assert_array_equal(on_hexagon(built, call).outputs["y"], on_x86(built, call).outputs["y"])


@pytest.mark.parametrize(("dtype", "numpy", "quant"), TYPES)
def test_a_tensor_of_each_type_and_rank(dtype: str, numpy: str, quant: tuple[float, int] | None, raw: Built) -> None:
    shape = [(1, 2, 3, 2), (3,), (2, 3), (2, 3, 2), (1, 2, 3, 2, 1)][len(dtype) % 5]
    values = (np.arange(np.prod(shape)) - 2).reshape(shape).astype(numpy)
    table = values.reshape(-1)[:3]
    call = OpCall(
        "Seen",
        "Raw",
        (TensorArg("x", dtype, shape, values, quant),),
        (TensorArg("y", "INT_32", (128,)),),
        (ParamArg("p", 1, "INT_32"), ParamArg("t", table, dtype, quant)),
    )
    same_everywhere(raw, call)


@pytest.mark.parametrize(("dtype", "value"), SCALARS)
def test_a_scalar_parameter_of_each_type(dtype: str, value: float, raw: Built) -> None:
    x = np.float32([[1, 2]])
    table = np.int32([1, 2])
    params = (ParamArg("p", value, dtype), ParamArg("t", table, "INT_32"))
    call = OpCall("Seen", "Raw", (TensorArg("x", "FLOAT_32", x.shape, x),), (TensorArg("y", "INT_32", (99,)),), params)
    same_everywhere(raw, call)


@pytest.mark.parametrize("dtype", ["FLOAT_16", "STRING"])
def test_a_parameter_that_htp_does_not_take(dtype: str, raw: Built) -> None:
    x = np.float32([[1, 2]])
    call = called(
        raw, "Prepared", x.astype(np.int32), params=(ParamArg("k", "x" if dtype == "STRING" else 1.0, dtype),)
    )
    with pytest.raises(RunFailed, match=f"`k`: .* cannot be passed as {dtype}"):
        on_hexagon(raw, call)


@pytest.mark.parametrize("params", [{}, {"mode": "FLOOR", "weights": "[4, 5, 6]", "flag": "0", "shift": "-3"}])
def test_a_generated_package_sees_the_same_parameters(params: dict[str, object], both: Built) -> None:
    a, b = np.ones((1, 2, 2, 2), np.float32), np.array([7, 8, 9], np.int32)
    wishes = Wishes({"in[0]": a, "in[1]": b}, params=params, shapes={"out[1]": (7,)})
    call = make_call(both.op("ScaleShift", "htp"), both, "ScaleShift", wishes)
    ours, theirs = on_hexagon(both, call).outputs, on_x86(both, call).outputs
    assert ours["out[1]"].tolist() == theirs["out[1]"].tolist()
    np.testing.assert_array_equal(ours["out[0]"], a + 7)


def test_signed_fixed_point_comes_back_as_it_was(both: Built) -> None:
    values = np.arange(-128, 128).astype(np.int8).reshape(2, 128)
    call = make_call(
        both.op("Mix", "htp"), both, "Mix", Wishes({"x": values}, quants={"x": (0.5, 3)}, dtypes={"y": "FLOAT_32"})
    )
    np.testing.assert_array_equal(on_hexagon(both, call).outputs["y"], (values.astype(np.float32) + 3) / 2)


# --- kernels of every kind --------------------------------------------------------------------------------------------


def test_hvx_equals_scalar_at_every_length(raw: Built) -> None:
    assert raw.folder is not None
    random = np.random.default_rng(68)
    with (
        HexagonSession(raw.folder, wanted=Wanted("hvx"), timeout=60) as hvx,
        HexagonSession(raw.folder, wanted=Wanted("main"), timeout=60) as scalar,
    ):
        for size in [1, 2, 127, 128, 129, 130, 255, 256, 257, 1000, 4095, 4097]:
            a, b = (random.integers(0, 256, size).astype(np.uint8) for _ in range(2))
            call = called(raw, "Add", a, b)
            expected = np.minimum(a.astype(int) + b, 255).astype(np.uint8)
            vector, plain = hvx.run(call), scalar.run(call)
            assert (vector.kernel, plain.kernel) == ("Add_hvx on hvx", "Add_main on main")
            np.testing.assert_array_equal(vector.outputs["y"], expected)
            np.testing.assert_array_equal(plain.outputs["y"], expected)
    np.testing.assert_array_equal(on_x86(raw, call).outputs["y"], expected)


def test_the_first_record_that_fits_is_taken_unless_another_is_named(raw: Built) -> None:
    x = np.arange(4, dtype=np.uint8)
    assert on_hexagon(raw, called(raw, "Add", x, x)).kernel == "Add_main on main"
    assert on_hexagon(raw, called(raw, "Add", x, x), wanted=Wanted("Add_hvx")).kernel == "Add_hvx on hvx"
    with pytest.raises(OpRefused, match="op `Add` has no kernel record of that name or unit") as told:
        on_hexagon(raw, called(raw, "Add", x, x), wanted=Wanted("hmx"))
    assert told.value.details == ("it has Add_main (main), Add_hvx (hvx)",)


def test_packets_are_counted_and_repeat(raw: Built) -> None:
    x = np.arange(1 << 20, dtype=np.uint32).astype(np.uint8)
    call = called(raw, "Add", x, x)
    counted = {}
    for kernel in ("hvx", "main"):
        first, again = (on_hexagon(raw, call, wanted=Wanted(kernel), count=True).packets for _ in range(2))
        assert first is not None and first == again
        assert sum(packets for _, packets in first.functions) == first.total
        assert "addOn" in first.functions[0][0] or "addScalar" in first.functions[0][0]
        assert not any("udogen_" in name for name, _ in first.functions)
        counted[kernel] = first.total
    # Each of the vectors is unaligned, which takes twice the packets of aligned ones.
    assert counted["main"] >= 80 * counted["hvx"], counted
    small = on_hexagon(raw, called(raw, "Add", x[:1], x[:1]), wanted=Wanted("main"), count=True).packets
    assert small is not None and 1 < small.total < 200


def test_packets_of_several_executions_are_not_counted(raw: Built) -> None:
    x = np.zeros(4, np.uint8)
    with pytest.raises(RunFailed, match="of one execution"):
        on_hexagon(raw, replace(called(raw, "Add", x, x), loops=2), count=True)


@pytest.mark.parametrize("slices", [1, 2, 4])
def test_slices_run_at_once(slices: int, raw: Built) -> None:
    """They wait for each other, in memory that is zeroed for each execution."""
    x = np.arange(12, dtype=np.int32)
    call = replace(called(raw, "Slices", x), loops=3)
    outputs = on_hexagon(raw, call, wanted=Wanted(slices=slices)).outputs["y"]
    assert outputs.tolist() == (x + 1 + np.arange(12) * slices // 12).tolist()
    if slices == 1:
        np.testing.assert_array_equal(on_x86(raw, call).outputs["y"], outputs)


@pytest.mark.parametrize(("op", "answer"), [("Prepared", [0, 6, 7]), ("PreparedInDdr", [0, 16, 17])])
def test_precomputation_has_no_data_but_constants_in_ddr(op: str, answer: list[int], raw: Built) -> None:
    x = np.array([5, 6, 7], np.int32)
    call = replace(called(raw, op, x, params=(ParamArg("k", 10, "INT_32"),)), loops=3)
    assert on_hexagon(raw, call).outputs["y"].tolist() == answer
    np.testing.assert_array_equal(on_x86(raw, call).outputs["y"], answer)


def test_precomputation_may_fail(raw: Built) -> None:
    call = called(raw, "PreparedInDdr", np.zeros(3, np.int32), params=(ParamArg("k", -1, "INT_32"),))
    with pytest.raises(OpFailed, match=r"answered 2 \(QHPI_ErrorFatal\) in phase `precompute`"):
        on_hexagon(raw, call)


@pytest.mark.parametrize(("size", "answer"), [(9, 1), (8, 2)])
def test_conditions_are_asked(size: int, answer: int, raw: Built) -> None:
    call = called(raw, "Choosy", np.zeros(size, np.int32))
    assert on_hexagon(raw, call).outputs["y"].tolist() == [answer] * size
    np.testing.assert_array_equal(on_x86(raw, call).outputs["y"], [answer] * size)


def test_a_call_that_no_record_takes(both: Built) -> None:
    call = make_call(None, both, "Mix", Wishes({"x": np.ones((1, 2, 2, 2), np.int32)}))
    with pytest.raises(OpRefused, match="op `Mix` has no kernel record that fits these tensors") as told:
        on_hexagon(both, call)
    assert told.value.details[0] == "given: inputs Int32 Flat4; outputs Int32 Flat4"


# --- what goes wrong --------------------------------------------------------------------------------------------------

WRONG = [
    (1, OpCrashed, r"op `Wrong` crashed with SIGSEGV \(segmentation fault\) in phase `execute`"),
    (2, OpTimedOut, "op `Wrong` did not come back within 2 s in phase `execute`"),
    (3, OpFailed, r"op `Wrong` answered 2 \(QHPI_ErrorFatal\) in phase `execute`: the third way: 42"),
    (4, OpCrashed, r"op `Wrong` threw a C\+\+ exception \(std::out_of_range\) in phase `execute`"),
    (5, OpFailed, "cannot execute, most likely HVX floating point"),
    (6, OpFailed, "wrote outside of its output `y`"),
    (7, OpCrashed, "ended the process with exit code 3 in phase `execute`"),
    (9, OpFailed, "wrote outside of its output `y`"),
]


@pytest.mark.parametrize(("how", "kind", "said"), WRONG)
def test_what_goes_wrong_is_a_sentence(how: int, kind: type[RunFailed], said: str, raw: Built) -> None:
    with pytest.raises(kind, match=said) as told:
        on_hexagon(raw, called(raw, "Wrong", np.array([how, 0], np.int32)), timeout=2)
    assert told.value.exit_code == 5


def test_chatter_and_log_stay_apart_from_results(raw: Built) -> None:
    result = on_hexagon(raw, called(raw, "Wrong", np.array([8, 0], np.int32)))
    assert result.outputs["y"].tolist() == [8, 0]
    assert [(line.level, line.text, line.source) for line in result.logs] == [(3, "to the log", "package")]


def test_a_rank_or_a_name_that_is_not_there(raw: Built) -> None:
    with pytest.raises(OpRefused, match="rank 6"):
        on_hexagon(raw, called(raw, "Choosy", np.zeros((1,) * 6, np.int32)))
    with pytest.raises(OpRefused, match="has no op `Chosy`"):
        on_hexagon(raw, called(raw, "Chosy", np.zeros(1, np.int32)))


def test_an_answer_that_is_cut_off_is_read_as_far_as_it_goes() -> None:
    whole = bytes([1, 0, 0, 0, 2, 0, 0, 0]) + b"ab"
    assert list(records(whole * 2)) == [(1, b"ab")] * 2
    assert list(records(whole + whole[:-1])) == [(1, b"ab")]
    assert list(records(whole + b"\1")) == [(1, b"ab")]


def test_a_kernel_that_does_not_compile_and_a_package_without_qhpi(raw: Built, tmp_path: Path) -> None:
    assert raw.folder is not None
    shutil.copytree(raw.folder.path, tmp_path / "copy")
    folder = find_source(tmp_path / "copy", backend="htp").folder
    assert folder is not None
    (folder.path / "src" / "ops" / "Add.cpp").write_text("#error unfinished\n")
    with pytest.raises(BuildFailed, match="did not build") as told:
        HexagonSession(folder)
    assert "src/ops/Add.cpp:1: " in told.value.details[0] and "unfinished" in told.value.details[0]
    (folder.path / "src" / "ops" / "Add.cpp").write_text("")
    text = (folder.path / "src" / "RawInterface.cpp").read_text()
    (folder.path / "src" / "RawInterface.cpp").write_text(text.replace("qhpi_init", "another_name"))
    with pytest.raises(BuildFailed, match="has no qhpi_init: only packages over QHPI"):
        HexagonSession(folder)


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def command(raw: Built, tmp_path: Path) -> list[Any]:
    assert raw.folder is not None
    np.save(tmp_path / "x.npy", np.arange(300).astype(np.uint8))
    both = ["--input", f"a={tmp_path / 'x.npy'}", "--input", f"b={tmp_path / 'x.npy'}"]
    return ["run", "op", raw.folder.path, "Add", *both]


def test_run_op(command: list[Any], tmp_path: Path) -> None:
    done = udogen(*command, "--backend", "hexagon", "--count", "--output", f"y={tmp_path / 'y.npy'}")
    assert done.returncode == 0, done.stderr
    head, output, total, *functions = done.stdout.splitlines()
    assert head.startswith("Raw::Add ran on Hexagon v73 under qemu-hexagon ")
    assert head.endswith("(kernel Add_main on main)") and "µs" not in head
    assert output.startswith("  y: uint8 300, 0 … 255 -> ") and total.endswith(" packets in one execution, of which")
    assert functions
    x = np.arange(300).astype(np.uint8)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.minimum(x.astype(int) * 2, 255))
    told = json.loads(
        udogen(*command, "--backend", "hexagon", "--count", "--kernel", "hvx", "--slices", 2, "--json").stdout
    )
    assert told["kernel"] == "Add_hvx on hvx" and told["backend"] == "hexagon"
    assert told["packets"]["total"] == sum(each["packets"] for each in told["packets"]["functions"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--backend", "htp", "--count"), "--count means nothing with --backend htp"),
        (("--arch", "v73"), "--arch means nothing with --backend cpu"),
        (("--backend", "hexagon", "--save-context", "x"), "--save-context means nothing with --backend hexagon"),
        (("--backend", "hexagon", "--qnn-lib", "x"), "--qnn-lib means nothing with --backend hexagon"),
        (("--backend", "hexagon", "--arch", "v67"), "there is no Hexagon `v67`"),
        (("--backend", "hexagon", "--slices", "0"), "--slices"),
    ],
)
def test_options_that_do_not_fit(options: tuple[str, ...], said: str, command: list[Any]) -> None:
    done = udogen(*command, *options)
    assert done.returncode == 2 and said in done.stderr


def test_a_cpu_package_is_not_for_hexagon(tmp_path: Path) -> None:
    [made] = make_packages([CONFIGS / "both.xml"], tmp_path, chosen=["cpu"])
    with pytest.raises(UsageError, match="no package for the htp backend"):
        find_source(made.folder, backend="htp")
    with pytest.raises(RunFailed, match="there is no generated package at"):
        find_source(tmp_path / "nowhere", backend="htp")


def test_tools_that_are_missing(raw: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    assert raw.folder is not None
    monkeypatch.setattr(tools, "zig", tuple)
    with pytest.raises(ToolMissing, match="zig is not installed"):
        HexagonSession(raw.folder)
    monkeypatch.setattr(tools, "program", lambda _name: "")
    with pytest.raises(ToolMissing, match="`qemu-hexagon` is not on PATH") as told:
        HexagonSession(raw.folder)
    assert told.value.hint == "apt-get install qemu-user" and told.value.exit_code == 3


@pytest.mark.slow
@pytest.mark.parametrize("arch", emulated.ARCHITECTURES)
def test_every_architecture(arch: str, raw: Built) -> None:
    x = np.arange(1000).astype(np.uint8)
    for kernel in ("main", "hvx"):
        result = on_hexagon(raw, called(raw, "Add", x, x), arch=arch, wanted=Wanted(kernel))
        assert result.runtime.name.startswith(f"Hexagon {arch} under")
        np.testing.assert_array_equal(result.outputs["y"], np.minimum(x.astype(int) * 2, 255))
