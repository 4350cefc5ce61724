"""HTP packages in Qualcomm's own HTP emulator: the arguments of a kernel, and what is refused, and how."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import udogen
from tests.hexagon.running import need_tools
from tests.making import CONFIGS, ONE_OP, make_packages, make_well, need_runtime, op_session, refused
from tests.opdef.texts import collection, op, param, tensor
from udogen import RunFailed
from udogen.generate.pipeline import Generated
from udogen.runtime.built import Built, find_built, find_source
from udogen.runtime.op.request import CallOptions, make_call
from udogen.runtime.ops import HexagonSession, OpSession

KERNELS = Path(__file__).parent / "kernels" / "both"
A = np.ones((1, 2, 2, 2), np.float32)
B = np.array([7, 8, 9], np.int32)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the packages of both backends, built, with kernels that record their arguments."""
    need_runtime("htp")
    folder = tmp_path_factory.mktemp("both")
    for made in make_packages([CONFIGS / "both.xml"], folder, kernels=KERNELS):
        make_well(made.folder, f"{made.plan.backend}_x86")
    return folder


@pytest.fixture(params=["cpu", "htp"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(out: Path, backend: str, op: str, options: CallOptions) -> dict[str, np.ndarray]:
    built = find_built(out, backend=backend)
    return op_session(built, backend).run(make_call(built.op(op, backend), built, op, options)).outputs


def seen(out: Path, backend: str, **params: object) -> list[float]:
    """Return ScaleShift's view of its parameters: first and last weight, mode, flag, has_shift, shift, in[1]'s size."""
    options = CallOptions({"in[0]": A, "in[1]": B}, params=params, shapes={"out[1]": (7,)})
    outputs = run(out, backend, "ScaleShift", options)
    np.testing.assert_array_equal(outputs["out[0]"], A + 7)
    return outputs["out[1]"].tolist()


def test_two_backends_make_two_folders_and_one_makes_its_name(out: Path, tmp_path: Path) -> None:
    assert sorted(path.name for path in out.iterdir()) == ["BothPackageCpu", "BothPackageHtp"]
    [alone] = make_packages([CONFIGS / "both.xml"], tmp_path, chosen=["htp"])
    assert alone.folder.name == "BothPackage"
    again = make_packages([CONFIGS / "both.xml"], tmp_path)
    assert sorted(made.folder.name for made in again) == ["BothPackage", "BothPackageCpu"], "a folder keeps its name"


def test_two_packages_never_share_a_folder(tmp_path: Path) -> None:
    other = tmp_path / "other.xml"
    other.write_text(ONE_OP.read_text("utf-8").replace("LeakyReluPackage", "BothPackageCpu"))
    done = udogen("generate", CONFIGS / "both.xml", other, "-o", tmp_path / "new")
    assert done.returncode == 2 and "would both go to" in done.stderr
    assert not (tmp_path / "new").exists()


def test_a_foreign_folder_of_the_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "BothPackageHtp").mkdir()
    (tmp_path / "BothPackageHtp" / "mine.txt").write_text("mine")
    [made] = make_packages([CONFIGS / "both.xml"], tmp_path, chosen=["htp"])
    assert made.folder.name == "BothPackage"


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, [1.5, 2.5, 1, 1, 0, 0, 3]),
        ({"weights": np.float32([4, 5, 6]), "mode": "FLOOR", "flag": "0", "shift": "-3"}, [4, 6, 0, 0, 1, -3, 3]),
        ({"flag": False}, [1.5, 2.5, 1, 0, 0, 0, 3]),  # those before the last one given take their defaults
    ],
)
def test_both_backends_see_the_same(out: Path, backend: str, params: dict[str, object], expected: list[float]) -> None:
    assert seen(out, backend, **params) == expected


@pytest.mark.parametrize(
    ("dtype", "numpy", "quant", "tolerance"),
    [
        ("FLOAT_32", np.float32, None, 0),
        ("FLOAT_16", np.float16, None, 2e-3),
        ("SFIXED_POINT_8", np.int8, (0.05, 3), 1e-6),
    ],
)
@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 2, 2)])
def test_each_type_and_rank_arrives(
    out: Path, dtype: str, numpy: type, quant: tuple[float, int] | None, tolerance: float, shape: tuple[int, ...]
) -> None:
    """Mix copies real values: the FLOAT_32 output equals the input."""
    stored = (np.arange(np.prod(shape)).reshape(shape) - 4).astype(numpy)
    options = CallOptions({"x": stored}, quants={"x": quant} if quant else {}, dtypes={"x": dtype, "y": "FLOAT_32"})
    real = stored.astype(np.float32) if quant is None else np.float32(quant[0]) * (stored.astype(np.float32) + quant[1])
    found = run(out, "htp", "Mix", options)["y"]
    np.testing.assert_allclose(found, real, atol=tolerance)


def test_halves_round_to_nearest_even(out: Path) -> None:
    """udo::Half compared with numpy, for all edge cases: subnormal, overflow, ties, infinite, NaN."""
    bits = np.concatenate([np.arange(0, 1 << 16, 7), [0x7C00, 0xFC00, 0x7E00, 0x0001, 0x8001, 0x03FF, 0x7BFF]])
    halves = bits.astype(np.uint16).view(np.float16).reshape(1, 1, 1, -1)
    wide = run(out, "htp", "Mix", CallOptions({"x": halves}, dtypes={"y": "FLOAT_32"}))["y"]
    np.testing.assert_array_equal(wide, halves.astype(np.float32))
    random = np.random.default_rng(7).integers(0, 1 << 32, 20_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    floats = np.concatenate([random, wide.ravel(), np.float32([65519.99, 65520, 65504, 2.0**-25, 1e-8, 3e-8])])
    floats = floats.astype(np.float32).reshape(1, 1, 1, -1)
    narrow = run(out, "htp", "Mix", CallOptions({"x": floats}, dtypes={"y": "FLOAT_16"}))["y"]
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(narrow, floats.astype(np.float16))


def test_a_type_without_a_kernel_record_is_refused(out: Path) -> None:
    built = find_built(out, backend="htp")
    stranger = Built(built.library, built.provider, built.package, None)  # like a client that does not have the config
    with (
        OpSession(built.library, built.provider, backend="htp", timeout=60) as session,
        pytest.raises(RunFailed) as output,
    ):
        session.run(make_call(None, stranger, "Mix", CallOptions({"x": np.ones((1, 2, 2, 2), np.int32)})))
    assert output.value.message == (
        "op `Mix` was refused: input 0 `x` is INT_32 (0x0032); it must be FLOAT_32 or FLOAT_16 or SFIXED_POINT_8"
    )
    assert output.value.hint == "pass what the op's config allows"


def test_a_saved_context_gives_the_same_numbers_in_a_new_process(out: Path, backend: str, tmp_path: Path) -> None:
    for name, array in (("a", A), ("b", B)):
        np.save(tmp_path / f"{name}.npy", array)
    run_op = ["run", "op", out, "ScaleShift", "--backend", backend, "--shape", "out[1]=7", "--json"]
    run_op += ["--input", f"in[0]={tmp_path / 'a.npy'}", "--input", f"in[1]={tmp_path / 'b.npy'}"]
    file = tmp_path / "context.bin"
    made = udogen(*run_op, "--param", "mode=FLOOR", "--param", "weights=[4, 5, 6]", "--save-context", file)
    assert made.returncode == 0, made.stdout
    restored = udogen(*run_op, "--context", file)
    assert restored.returncode == 0, restored.stdout
    outputs = json.loads(restored.stdout)["outputs"]
    assert outputs == json.loads(made.stdout)["outputs"]
    assert outputs["out[1]"]["data"] == [4, 6, 0, 1, 0, 0, 3]


def test_a_context_that_does_not_fit(out: Path, backend: str) -> None:
    built = find_built(out, backend=backend)
    op = built.op("ScaleShift", backend)
    options = CallOptions({"in[0]": A, "in[1]": B}, shapes={"out[1]": (7,)})
    call = replace(make_call(op, built, "ScaleShift", options), save_context=True)
    with OpSession(built.library, built.provider, backend=backend, timeout=60) as session:
        binary = session.run(call).context
        assert binary
        with pytest.raises(RunFailed, match="cannot be saved again"):
            session.run(replace(call, context=binary))
        call = replace(call, save_context=False)
        longer = replace(options, shapes={"out[1]": (9,)})
        with pytest.raises(
            RunFailed, match=r"`out\[1\]` of the context is FLOAT_32 \[7\], the call has FLOAT_32 \[9\]"
        ):
            session.run(replace(make_call(op, built, "ScaleShift", longer), context=binary))
        mix = make_call(built.op("Mix", backend), built, "Mix", CallOptions({"x": A}))
        with pytest.raises(RunFailed, match=r"the inputs of the context are in\[0\], in\[1\], not x"):
            session.run(replace(mix, context=binary))
        for broken in (b"", b"nothing of the kind", binary[: len(binary) // 2]):
            with pytest.raises(RunFailed):
                session.run(replace(call, context=broken))
        assert session.run(replace(call, context=binary)).outputs["out[1]"].tolist() == [1.5, 2.5, 1, 1, 0, 0, 3]


@pytest.mark.parametrize("shape", [(), (1,) * 6])
def test_a_rank_that_htp_does_not_have(out: Path, shape: tuple[int, ...]) -> None:
    with pytest.raises(RunFailed, match=f"`x` of op `Mix` has rank {len(shape)}, which this backend does not take"):
        run(out, "htp", "Mix", CallOptions({"x": np.ones(shape, np.float32)}))


def test_a_kernel_that_returns_an_error(out: Path) -> None:
    with refused("Mix does not like -99"):
        run(out, "htp", "Mix", CallOptions({"x": np.full((1, 1, 1, 1), -99, np.float32)}))


def bad(datatype: str = "FLOAT_16", param_type: str = "INT_32", more: str = "") -> str:
    """Return a config for HTP."""
    tensors = tensor("Input", "x", rank="4D", more=more) + tensor("Input", "z", datatype, rank="4D")
    return collection(op(tensors + tensor("Output", "y", rank="4D") + param("p", param_type), backends="HTP"))


@pytest.mark.parametrize(
    ("change", "printed"),
    [
        ({"more": "<Repeated>true</Repeated>"}, "repeated, which HTP"),
        ({"datatype": "FLOAT_64"}, "never passes to an op"),
        ({"param_type": "STRING"}, "is a string, which HTP"),
    ],
)
def test_what_htp_cannot_take_is_an_error(change: dict[str, str], printed: str, tmp_path: Path) -> None:
    config = tmp_path / "bad.xml"
    config.write_text(bad())
    made: list[Generated] = make_packages([config], tmp_path / "good")
    assert made[0].plan.backend == "htp"
    config.write_text(bad(**change))
    done = udogen("generate", config, "-o", tmp_path / "bad")
    assert done.returncode == 2 and printed in done.stderr
    assert not (tmp_path / "bad").exists()


def ends(*, bias: str = "FLOAT_32", rank: str = "ND", kind: str = "INT_32") -> str:
    """Return a config of an op with optional inputs and parameters at the end."""
    body = tensor("Input", "x") + tensor("Input", "bias", bias, rank=rank, mandatory="false")
    body += tensor("Input", "scale", mandatory="false", more="<Default>[2.0]</Default>") + tensor("Output", "y")
    body += param("step", kind, default="0") + param("more", kind, default="100")
    return collection(op(body, "Shift", "HTP"), name="Ends")


SHIFT = """#include "ops/Shift.hpp"

namespace ops::Ends::Shift {

udo::Status execute(const Args& args) {
  const float bias = args.bias ? args.bias.real(0) : 1000.0f;
  for (std::size_t i = 0; i < args.x.size(); ++i) {
    args.y.setReal(i, args.x.real(i) * args.scale.real(0) + bias + static_cast<float>(args.step + args.more));
  }
  return udo::ok;
}

}  // namespace ops::Ends::Shift
"""


def running(built: Built, place: str) -> OpSession | HexagonSession:
    """Return a session of the package there."""
    if place == "htp":
        library = find_built(built.library, backend="htp")
        return OpSession(library.library, library.provider, backend="htp", timeout=120)
    assert built.folder is not None
    return HexagonSession(built.folder, timeout=120)


@pytest.mark.parametrize("place", ["htp", "hexagon"])
def test_inputs_at_the_end_may_be_left_out(place: str, tmp_path: Path) -> None:
    """HTP's kernels identify the given inputs by the number of a node's values, or their types; parameters follow."""
    (tmp_path / "Shift.cpp").write_text(SHIFT)
    (tmp_path / "ends.xml").write_text(ends())
    [made] = make_packages([tmp_path / "ends.xml"], tmp_path / "out", kernels=tmp_path)
    one = {name: np.full((1, 1, 1, 1), value, np.float32) for name, value in (("bias", 5), ("scale", 3))}
    if place == "htp":
        need_runtime("htp")
        make_well(made.folder, "htp_x86")
    else:
        need_tools()
    built = find_source(made.folder, backend="htp")
    with running(built, place) as session:
        for inputs in ({}, {"bias": one["bias"]}, one):
            for params in ({}, {"step": 7}, {"step": 7, "more": 1}, {"more": 1}):
                options = CallOptions({"x": A, **inputs}, params=params)
                got = session.run(make_call(built.op("Shift", "htp"), built, "Shift", options)).outputs["y"]
                wanted = A * (3 if "scale" in inputs else 2) + (5 if inputs else 1000)
                wanted += params.get("step", 0) + params.get("more", 100)
                np.testing.assert_array_equal(got, wanted, err_msg=f"{list(inputs)} {params}")


SIGNED_KERNEL = """#include "ops/Add.hpp"

namespace ops::Signed::Add {

udo::Status execute(const Args& args) {
  const float b = args.b ? args.b.real(0) : 1000.0f;
  args.y.setReal(0, args.x.real(0) + b + static_cast<float>(10000 * args.p + 1000000 * args.r));
  args.y.setReal(1, args.w.rank() == 4 ? static_cast<float>(args.w.shape()[3]) : 0.0f);
  return udo::ok;
}

}  // namespace ops::Signed::Add
"""


@pytest.mark.parametrize("kind", ["SFIXED_POINT_8", "SFIXED_POINT_16"])
def test_signed_inputs_at_the_end_and_parameters_in_any_order(kind: str, tmp_path: Path) -> None:
    """Rewrites see signed types, kernels do not; a parameter before a mandatory one may be omitted."""
    (tmp_path / "Add.cpp").write_text(SIGNED_KERNEL)
    body = tensor("Input", "x") + tensor("Input", "b", kind, mandatory="false") + tensor("Output", "y")
    body += param("p", "INT_32", default="7") + param("w", rank="1D", default="[1, 2]") + param("r", "INT_32")
    (tmp_path / "signed.xml").write_text(collection(op(body, "Add", "HTP"), name="Signed"))
    [made] = make_packages([tmp_path / "signed.xml"], tmp_path / "out", kernels=tmp_path)
    need_runtime("htp")
    make_well(made.folder, "htp_x86")
    built = find_built(made.folder, backend="htp")
    b = np.full((1, 1), 3, f"int{kind.rpartition('_')[2]}")
    with OpSession(built.library, built.provider, backend="htp", timeout=120) as session:
        for inputs in ({}, {"b": b}):
            for params in ({"r": 2}, {"r": 2, "p": 5}, {"r": 2, "w": [1, 2]}, {"w": [1, 2], "r": 2, "p": 5}):
                options = CallOptions({"x": A, **inputs}, params=params, quants={"b": (1.0, 0)} if inputs else {})
                call = make_call(built.op("Add", "htp"), built, "Add", replace(options, by_name=True))
                got = session.run(call).outputs["y"].ravel()
                wanted = A.ravel()[0] + (3 if inputs else 1000) + 10000 * (5 if "p" in params else 7) + 2000000
                assert (got[0], got[1]) == (wanted, 2), f"{list(inputs)} {params}"


def test_a_tensor_of_5_dimensions_beside_others_of_fewer(tmp_path: Path) -> None:
    (tmp_path / "Shift.cpp").write_text(SHIFT)
    (tmp_path / "ends.xml").write_text(ends(rank="5D"))
    [made] = make_packages([tmp_path / "ends.xml"], tmp_path / "out", kernels=tmp_path)
    need_runtime("htp")
    make_well(made.folder, "htp_x86")
    built = find_built(made.folder, backend="htp")
    with OpSession(built.library, built.provider, backend="htp", timeout=120) as session:
        options = CallOptions({"x": A, "bias": np.full((1, 1, 1, 1, 1), 5, np.float32)})
        got = session.run(make_call(built.op("Shift", "htp"), built, "Shift", options)).outputs["y"]
        np.testing.assert_array_equal(got, A * 2 + 5 + 100)


@pytest.mark.parametrize(
    ("bias", "kind", "warned"),
    [("FLOAT_32", "INT_32", False), ("FLOAT_32", "FLOAT_32", True), ("UINT_32", "INT_32", True)],
)
def test_what_no_type_tells_must_be_given(bias: str, kind: str, warned: bool, tmp_path: Path) -> None:
    """The bias may be the parameter after it, which may be missing, too; HTP has one type for INT_32 and UINT_32."""
    config = tmp_path / "ends.xml"
    config.write_text(ends(bias=bias, kind=kind))
    done = udogen("generate", config, "-o", tmp_path)
    assert done.returncode == 0 and ("`bias` of `Shift` is optional, which HTP" in done.stderr) == warned
