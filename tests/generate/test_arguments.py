"""The arguments of a kernel in the real runtime: every kind of field, given and by default.

The kernels under tests/generate/kernels write all their arguments to the log, as `field=value`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.making import CONFIGS, KERNELS, compiler, make_packages, make_well, need_runtime, refused
from udogen import RunFailed
from udogen.runtime import Tensor
from udogen.runtime.built import Built, find_built
from udogen.runtime.op.calls import OpResult, param_of
from udogen.runtime.op.request import CallOptions, make_call
from udogen.runtime.ops import OpCall, OpSession

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

X = np.array([1, -2, 3], np.float32)


class Package:
    """A built package, and a session with it."""

    def __init__(self, built: Built, session: OpSession) -> None:
        self.built, self.session = built, session

    def call(self, op: str, **options: object) -> OpCall:
        return make_call(self.built.op(op, "cpu"), self.built, op, CallOptions(**options))  # type: ignore[arg-type]

    def run(self, op: str, **options: object) -> OpResult:
        return self.session.run(self.call(op, **options))

    def reported(self, op: str, **options: object) -> dict[str, str]:
        return reported(self.run(op, **options))


def reported(result: OpResult) -> dict[str, str]:
    """Return the fields that a kernel reported."""
    pairs = (line.text.partition("=") for line in result.logs if line.source == "package")
    return {name: value for name, equals, value in pairs if equals}


def opened(config: str, folder: Path) -> Iterator[Package]:
    need_runtime("cpu")
    [made] = make_packages([CONFIGS / config], folder, kernels=KERNELS)
    make_well(made.folder, cxx=compiler("g++"), flags=f"-Werror -I{KERNELS}")
    built = find_built(made.folder)
    with OpSession(built.library, built.provider, timeout=60) as session:
        yield Package(built, session)


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Package]:
    yield from opened("kinds.xml", tmp_path_factory.mktemp("kinds"))


@pytest.fixture(scope="module")
def nasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Package]:
    yield from opened("nasty.xml", tmp_path_factory.mktemp("nasty"))


# --- scalars ------------------------------------------------------------------------------------------------

DEFAULTS = {
    "f32": "0.10000000149011612", "f16": "-0.5", "f64": "0.10000000000000001", "yes": "true", "no": "false",
    "i8": "-128", "u8": "255", "i16": "-32768", "u16": "65535", "i32": "-2147483648", "u32": "4294967295",
    "i64": "-9223372036854775808", "odd64": "9007199254740993", "top64": "9223372036854775807",
    "u64": "18446744073709551615", "infinite": "-inf", "none": "nan", "tiny": "0",
    "huge": "3.3999999521443642e+38", "hex": "255",
    "mixed": "2.5", "wide": "7", "fixed": "7", "must_or": "3", "zero_d": "1.5",
    "has_maybe": "false", "maybe": "0", "has_flag": "false", "flag": "false", "has_later": "false", "later": "0",
}  # fmt: skip

GIVEN = {
    "f32": (1.25, "1.25"), "f64": (1 / 3, "0.33333333333333331"), "yes": (False, "false"),
    "no": (True, "true"), "i8": (-7, "-7"), "u8": (200, "200"), "i16": (-300, "-300"), "u16": (60000, "60000"),
    "i32": (-70000, "-70000"), "u32": (4_000_000_000, "4000000000"), "i64": (-(1 << 40), str(-(1 << 40))),
    "top64": ((1 << 63) - 1, "9223372036854775807"),
    "u64": (1 << 40, str(1 << 40)), "infinite": (3.0, "3"), "none": (-1.5, "-1.5"),
    "tiny": (2.0, "2"), "hex": (16, "16"), "mixed": (-3, "-3"), "wide": (-1, "-1"), "must_or": (9, "9"),
    "zero_d": (-2.5, "-2.5"), "maybe": (0.5, "0.5"), "flag": (True, "true"), "later": (-4, "-4"),
}  # fmt: skip


def test_scalars_by_default(kinds: Package) -> None:
    result = kinds.run("Scalars", inputs={"x": X}, params={"must": 1.0})
    seen = reported(result)
    assert {name: seen[name] for name in DEFAULTS} == DEFAULTS
    assert seen["must"] == "1"
    assert seen["x"] == "[3] 1 -2 3"
    np.testing.assert_array_equal(result.outputs["y"], X * np.float32(0.1))


def test_scalars_given(kinds: Package) -> None:
    params = {name: value for name, (value, _) in GIVEN.items()}
    seen = kinds.reported("Scalars", inputs={"x": X}, params={**params, "must": -0.5})
    assert {name: seen[name] for name in GIVEN} == {name: text for name, (_, text) in GIVEN.items()}
    assert (seen["has_maybe"], seen["has_flag"], seen["has_later"]) == ("true", "true", "true")


def test_scalars_given_as_texts_of_the_command_line(kinds: Package) -> None:
    params = {"f32": "1.25", "yes": "false", "i64": "-5", "infinite": "inf", "must": "2", "mixed": "2.5"}
    seen = kinds.reported("Scalars", inputs={"x": X}, params=params)
    assert {name: seen[name] for name in params} == {**params, "mixed": "2.5"}


def test_calls_with_other_params_do_not_disturb_each_other(kinds: Package) -> None:
    for factor in (2.0, None, 3.0, None):
        params = {"must": 1.0} if factor is None else {"must": 1.0, "f32": factor}
        seen = kinds.reported("Scalars", inputs={"x": X}, params=params)
        assert seen["f32"] == ("0.10000000149011612" if factor is None else f"{factor:g}")


def test_scalars_that_are_wrong_are_refused_with_their_name(kinds: Package) -> None:
    with pytest.raises(RunFailed, match="must") as caught:
        kinds.run("Scalars", inputs={"x": X})
    assert "mandatory" in str(caught.value) + " ".join(caught.value.details)
    built = kinds.built
    tensors = ((Tensor("x", "FLOAT_32", (3,), data=X),), (Tensor("y", "FLOAT_32", (3,)),))
    for param, reason in (
        (param_of("strange", 1, "INT_32"), "no parameter `strange`"),
        (param_of("must", 1, "INT_32"), "`must` is INT_32 (0x0032); it must be FLOAT_32"),
        (param_of("must", np.ones(2, np.float32), "FLOAT_32"), "`must` must be a scalar"),
    ):
        with refused(reason):
            kinds.session.run(OpCall("Scalars", built.package, *tensors, (param,)))


@pytest.mark.parametrize(("name", "value"), [("i64", -(1 << 53) - 1), ("u64", (1 << 63) + 1)])
def test_an_integer_that_the_runtime_would_round_is_refused(kinds: Package, name: str, value: int) -> None:
    with pytest.raises(RunFailed, match=f"`{name}` of `Scalars` is {value}, which the CPU backend would round"):
        kinds.run("Scalars", inputs={"x": X}, params={"must": 1.0, name: value})


# --- words --------------------------------------------------------------------------------------------------

TEXT = 'q"uote \\ ??/ ${x} % ## ä 中 <&'


def test_words_by_default(kinds: Package) -> None:
    seen = kinds.reported("Words", inputs={"x": X}, params={"long": 2, "given": "gïven"})
    assert seen["text"] == TEXT
    expected = {
        "mode": "1", "named": "bilinear", "side": "2", "unset": "0", "has_unset_": "false", "long_": "2",
        "mode_enum": "4", "has_unset": "5", "plain": "", "has_plain": "false", "given": "gïven",
    }  # fmt: skip
    assert {name: seen[name] for name in expected} == expected


def test_words_given(kinds: Package) -> None:
    params = {
        "mode": "default", "side": 0, "unset": "B", "long": "b", "mode_enum": 9, "has_unset": 8, "text": "a % s",
        "plain": "x", "given": "",
    }  # fmt: skip
    seen = kinds.reported("Words", inputs={"x": X}, params=params)
    expected = {
        "mode": "2", "named": "default", "side": "0", "unset": "1", "has_unset_": "true", "long_": "1",
        "mode_enum": "9", "has_unset": "8", "text": "a % s", "plain": "x", "has_plain": "true", "given": "",
    }  # fmt: skip
    assert {name: seen[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("name", "dtype", "value"), [("mode", "UINT_32", 3), ("side", "INT_8", -1), ("long", "UINT_16", 3)]
)
def test_values_outside_an_enumeration_are_refused(kinds: Package, name: str, dtype: str, value: int) -> None:
    params = {"long": param_of("long", 0, "UINT_16"), "given": param_of("given", "g", "STRING")}
    params[name] = param_of(name, value, dtype)
    call = kinds.call("Words", inputs={"x": X}, params={"long": 0, "given": "g"})
    with refused(f"`{name}` is {value}; its enumeration has only 0 …"):
        kinds.session.run(OpCall("Words", call.package, call.inputs, call.outputs, tuple(params.values())))


# --- tensors ------------------------------------------------------------------------------------------------

IN = np.arange(4, dtype=np.float32).reshape(1, 2, 2, 1)
WEIGHTS = np.array([5, 6], np.float32)
NEEDED = {"needed": [1, 2]}


def test_tensors_by_default(kinds: Package) -> None:
    result = kinds.run("Tensors", inputs={"in[0]": IN, "weights": WEIGHTS}, params=NEEDED)
    seen = reported(result)
    expected = {
        "in_0": "[1,2,2,1] 0 1 2 3", "weights": "[2] 5 6", "default_": "absent", "bias_0": "absent",
        "out_0": "[1,2,2,1] float", "class_": "absent",
        "row": "[3] 0.5 -1 0.0020000000949949026", "table": "[2,3] 1 2 3 4 5 -6",
        "cube": "[2,2,1] uint32 1 2 3 4", "mask": "[3] 1 0 1", "bytes": "[1] 7", "lacking": "absent", "any": "absent",
        "anyway": "[2] float 0.5 0.25", "needed": "[2] 1 2",
    }  # fmt: skip
    assert {name: seen[name] for name in expected} == expected
    finalize = {
        "in_0": "[1,2,2,1]", "weights": "[2]", "default_": "absent", "bias_0": "absent", "out_0": "[1,2,2,1]",
        "class_": "absent", "row": "[3]", "table": "[2,3]", "lacking": "absent",
    }  # fmt: skip
    assert {name: seen[f"prepare {name}"] for name in finalize} == finalize
    np.testing.assert_array_equal(result.outputs["out[0]"], IN)
    assert list(result.outputs) == ["out[0]"]


def test_tensors_given(kinds: Package) -> None:
    result = kinds.run(
        "Tensors",
        inputs={
            "in[0]": IN, "weights": np.ones((1, 2), np.float32), "default": np.array([10, 20], np.uint8),
            "bias.0": np.array(-3, np.int32),
        },
        params={
            "row": [9.5], "table": [[7, 8]], "cube": [[[1.0]]], "mask": [0, 1], "bytes": [1, 2], "lacking": [-5],
            "any": [[1.5, 2.5]], "anyway": [3], "needed": [4294967295],
        },
        quants={"default": (0.5, -10), "out[0]": (0.25, -4)},
        dtypes={"cube": "FLOAT_32", "out[0]": "UFIXED_POINT_8"},
        shapes={"class": (2,)},
    )  # fmt: skip
    seen = reported(result)
    expected = {
        "in_0": "[1,2,2,1] 0 1 2 3", "weights": "[1,2] 1 1", "default_": "[2 scale 0.5 offset -10] uint8 0 5",
        "bias_0": "[] -3", "out_0": "[1,2,2,1 scale 0.25 offset -4] uint8", "class_": "[2]",
        "row": "[1] 9.5", "table": "[1,2] 7 8", "cube": "[1,1,1] float 1", "mask": "[2] 0 1", "bytes": "[2] 1 2",
        "lacking": "[1] -5", "any": "[1,2] float 1.5 2.5", "anyway": "[1] uint8 3", "needed": "[1] 4294967295",
    }  # fmt: skip
    assert {name: seen[name] for name in expected} == expected
    np.testing.assert_array_equal(result.outputs["out[0]"], [[[[4], [8]], [[12], [16]]]])
    np.testing.assert_array_equal(result.outputs["class"], [7, 7])


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (np.array([1.5], np.float32), "float 1.5"),
        (np.array([-7], np.int32), "int32 -7"),
        (np.array([True]), "bool 1"),
    ],
)  # fmt: skip
def test_an_input_of_several_types(kinds: Package, array: Array, kind: str) -> None:
    seen = kinds.reported("Tensors", inputs={"in[0]": IN, "weights": WEIGHTS, "default": array}, params=NEEDED)
    assert seen["default_"] == f"[1] {kind}"


def test_an_optional_input_before_one_that_is_given(kinds: Package) -> None:
    inputs = {"in[0]": IN, "weights": WEIGHTS, "bias.0": np.array(4, np.int32)}
    seen = kinds.reported("Tensors", inputs=inputs, params=NEEDED)
    assert (seen["default_"], seen["bias_0"]) == ("absent", "[] 4")
    assert (seen["prepare default_"], seen["prepare bias_0"]) == ("absent", "[]")


def test_tensors_that_are_wrong_are_refused_with_their_name(kinds: Package) -> None:
    good = kinds.call("Tensors", inputs={"in[0]": IN, "weights": WEIGHTS}, params=NEEDED)
    flat = Tensor("in[0]", "FLOAT_32", (4,), data=IN.reshape(4))
    whole = Tensor("in[0]", "INT_32", (1, 2, 2, 1), data=IN.astype(np.int32))
    missing = Tensor("in[0]", "FLOAT_32", (), role="NULL")
    for inputs, params, reason in (
        ((flat, good.inputs[1]), good.params, "input 0 `in[0]` has rank 1; it must be 4"),
        ((whole, good.inputs[1]), good.params, "input 0 `in[0]` is INT_32 (0x0032); it must be FLOAT_32"),
        ((missing, good.inputs[1]), good.params, "input 0 `in[0]` is mandatory"),
        (good.inputs[:1], good.params, "has 1 inputs; it must have at least 2"),
        (good.inputs, (param_of("needed", 3, "UINT_32"),), "`needed` must be a tensor"),
        (
            good.inputs,
            (param_of("needed", np.ones((1, 1), np.uint32), "UINT_32"),),
            "`needed` has rank 2; it must be 1",
        ),
        (good.inputs, (), "lacks the mandatory parameter `needed`"),
    ):
        with refused(reason):
            kinds.session.run(OpCall("Tensors", good.package, inputs, good.outputs, params))


# --- repeated -----------------------------------------------------------------------------------------------


def test_repeated_tensors(nasty: Package) -> None:
    parts = {f"parts.{k}": X + k for k in range(3)}
    result = nasty.run("Many", inputs={"first": X, **parts, "bias": X * 2}, shapes={"copies.0": (3,), "copies.1": (3,)})
    seen = reported(result)
    assert seen["first"] == "[3] 1 -2 3"
    assert seen["parts"] == "3 [3] 1 -2 3 [3] 2 -1 4 [3] 3 0 5"
    assert seen["bias"] == "[3] 2 -4 6"
    assert seen["prepare parts"] == "3"
    assert seen["copies"] == "2 [3] float [3] float"
    np.testing.assert_array_equal(result.outputs["copies.1"], X + 1)
    for parts, text in (  # without the optional one after them
        ({"parts": X}, "1 [3] 1 -2 3"),
        ({"parts.0": X, "parts.1": X + 1, "parts.2": X + 2}, "3 [3] 1 -2 3 [3] 2 -1 4 [3] 3 0 5"),
    ):
        seen = nasty.reported("Many", inputs={"first": X, **parts})
        assert (seen["parts"], seen["bias"]) == (text, "absent")


@pytest.mark.parametrize("dtype", ["FLOAT_32", "INT_32", "UINT_32", "UINT_8", "BOOL_8", "UFIXED_POINT_8"])
def test_every_type_that_the_runtime_delivers(nasty: Package, dtype: str) -> None:
    numpy = {"FLOAT_32": "f4", "INT_32": "i4", "UINT_32": "u4", "BOOL_8": "?"}.get(dtype, "u1")
    array = np.array([[0, 1], [1, 0]]).astype(numpy)
    quants = {"x": (2.0, -1), "y": (2.0, -1)} if dtype == "UFIXED_POINT_8" else {}
    result = nasty.run(
        "AllTypes", inputs={"x": array}, params={"p": 1}, quants=quants, dtypes={"x": dtype, "y": dtype, "p": "INT_16"}
    )
    assert result.outputs["y"].dtype == array.dtype
    np.testing.assert_array_equal(result.outputs["y"], array)


# --- the lifetime of a kernel -------------------------------------------------------------------------------


def test_state_lives_as_long_as_its_node(nasty: Package) -> None:
    result = nasty.run("Nasty", inputs={"x": X}, loops=3)
    lines = [line.text for line in result.logs if line.source == "package"]
    assert [line for line in lines if line.startswith("executed")] == ["executed=1", "executed=2", "executed=3"]
    assert "freed after=3" in lines
    np.testing.assert_array_equal(result.outputs["y"], [1, 1, 1])


@pytest.mark.parametrize(
    ("k", "reason"),
    [
        (2.0, "threw a C++ exception"),
        (3.0, "prepare refuses k = 3, 100% sure"),
        (4.0, "threw a C++ exception"),
        (5.0, "execute refuses"),
        (6.0, "4711"),
    ],
)
def test_an_error_of_a_kernel_is_logged_with_the_name_of_the_op(nasty: Package, k: float, reason: str) -> None:
    restarts = nasty.session.restarts
    with refused(reason, "Nasty"):
        nasty.run("Nasty", inputs={"x": X}, params={"k": k})
    assert nasty.run("Nasty", inputs={"x": X}).outputs["y"][0] == 1
    assert nasty.session.restarts == restarts, "an error is not a crash"
