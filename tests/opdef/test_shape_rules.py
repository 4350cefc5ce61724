"""Shape rules: their arguments, their permitted results, and the reports of their mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.opdef.texts import collection, op, param, tensor
from udogen import UsageError
from udogen.configs.load import load
from udogen.opdef.model import OpPackage
from udogen.opdef.shape_rules import Given, Inferred, ShapeRuleFailed, ShapeRules, load_shape_rules

CONFIG = collection(
    op(
        tensor("Input", "x", "FLOAT_32 UINT_8", rank="4D")
        + tensor("Input", "bias", mandatory="false")
        + tensor("Output", "y", "FLOAT_32 UINT_8", rank="4D")
        + param("stride", "INT_32", default="2")
        + param("scale", "FLOAT_32", default="0.1"),
        name="Pool",
    )
    + op(tensor("Input", "x") + tensor("Output", "many", more="<Repeated>true</Repeated>"), name="Split")
    + op(
        tensor("Input", "parts", more="<Repeated>true</Repeated>")
        + tensor("Output", "joined")
        + tensor("Output", "count", "INT_32", rank="0D", mandatory="false"),
        name="Join",
    )
    + op(tensor("Input", "x") + tensor("Input", "in[1]", "INT_32", rank="1D") + tensor("Output", "y"), name="Reshape")
)
X = {"x": Given((1, 8, 6, 3))}


@pytest.fixture
def package(tmp_path: Path) -> OpPackage:
    (tmp_path / "demo.xml").write_text(CONFIG)
    ([found], _) = load([tmp_path / "demo.xml"])
    return found


def rules_of(text: str, package: OpPackage, folder: Path) -> ShapeRules:
    (folder / "rules.py").write_text(text)
    return load_shape_rules(folder / "rules.py", package.ops)


def test_a_rule_sees_tensors_and_parameters_and_returns_shapes(package: OpPackage, tmp_path: Path) -> None:
    rules = rules_of(
        "import math\n\n\ndef half(length, by):\n    return math.ceil(length / by)\n\n\n"
        "def Pool(op):\n"
        "    batch, rows, columns, channels = op.x.shape\n"
        "    channels += 0 if op.bias is None else op.bias.shape[0]\n"
        "    return {'y': [batch, half(rows, op.stride), half(columns, op['stride']), channels]}\n",
        package,
        tmp_path,
    )
    assert rules.has_shapes("Pool") and not rules.has_shapes("Split")
    assert rules.infer("Pool", X) == {"y": Inferred((1, 4, 3, 3), "FLOAT_32")}, "the stride is 2 where it is left out"
    assert rules.infer("Pool", X, {"stride": 5})["y"].shape == (1, 2, 2, 3)
    assert rules.infer("Pool", {**X, "bias": Given((4,))})["y"].shape == (1, 4, 3, 7)


def test_data_types_have_rules_of_their_own(package: OpPackage, tmp_path: Path) -> None:
    rules = rules_of(
        "def Pool_dtypes(op):\n    return {'y': 'FLOAT_32' if op.x.dtype == 'UINT_8' else 'UINT_8'}\n",
        package,
        tmp_path,
    )
    assert rules.infer("Pool", {"x": Given((1, 2, 3, 4), "UINT_8")}) == {"y": Inferred(None, "FLOAT_32")}
    assert not rules.has_shapes("Pool")


def test_numbers_have_the_precision_of_their_type(package: OpPackage, tmp_path: Path) -> None:
    rules = rules_of("def Pool(op):\n    return {'y': [1, 1, 1, int(op.scale * 1e9)]}\n", package, tmp_path)
    assert rules.infer("Pool", X)["y"].shape == (1, 1, 1, 100000001), "0.1 as FLOAT_32 is a little more"


def test_repeated_tensors_and_the_config_where_there_is_no_rule(package: OpPackage, tmp_path: Path) -> None:
    rules = rules_of(
        "def Split(op):\n"
        "    return {'many': [[op.x.shape[0] // op.outputs['many'], 7]] * op.outputs['many']}\n"
        "def Join(op):\n"
        "    return {'joined': [sum(each.shape[0] for each in op.parts)]}\n"
        "def Reshape(op):\n"
        "    return {'y': op['in[1]'].data}\n",
        package,
        tmp_path,
    )
    found = rules.infer("Split", {"x": Given((6,))}, outputs={"many": 3})
    assert found == {f"many.{number}": Inferred((2, 7), "FLOAT_32") for number in range(3)}
    parts = [Given((2,)), Given((5,))]
    assert rules.infer("Join", {"parts": parts}) == {"joined": Inferred((7,), "FLOAT_32")}
    found = rules.infer("Join", {"parts": parts}, outputs={"count": 1})
    assert found["count"] == Inferred((), "INT_32"), "rank 0 and its only type are given by the config"
    found = rules.infer("Reshape", {"x": Given((6,)), "in[1]": Given((2,), "INT_32", [2, 3])})
    assert found["y"].shape == (2, 3)


# The body of a rule -> a part of the message, and of the hint.
MISTAKES = {
    "raise ValueError('no such thing')": ("rules.py:2: no such thing", "in: raise ValueError('no such thing')"),
    "return {'y': op.x.shape[9]}": ("rules.py:2: IndexError: tuple index out of range", ""),
    "return {'y': op.strid}": (
        "rules.py:2: AttributeError: op `Pool` has no input, parameter or op `strid`: did you mean `stride`?", ""
    ),
    "return {'y': op.bias.shape}": ("rules.py:2: AttributeError: 'NoneType' object has no attribute 'shape'", ""),
    "return [1, 2]": ("rules.py:1: Pool returned [1, 2]", "return {'y': …}"),
    "return {'z': [1]}": ("rules.py:1: Pool op `Pool` has no output `z`: it has y", "name an output"),
    "return {'y': [1, 2]}": ("rules.py:1: Pool returned a shape of rank 2 for `y`: [1, 2]", "the config gives 4D"),
    "return {'y': [1, 2, 3, 0.5]}": ("rules.py:1: Pool returned [1, 2, 3, 0.5] for `y`", "integers"),
    "return {'y': [1, 0, 3, 4]}": ("Pool returned the shape [1, 0, 3, 4] for `y`", "an extent is at least 1"),
    "return {'y': [1] * 9}": ("returned the shape [1, 1, 1, 1, 1, 1, 1, 1, 1] for `y`", "at most 8"),
    "return {'y': 'FLOAT_3'}": ("Pool_dtypes returned 'FLOAT_3' for `y`", "return a data type"),
    "return {'y': 'INT_32'}": ("Pool_dtypes returned INT_32 for `y`", "the config allows FLOAT_32, UINT_8"),
    "return {'many': [[1]]}": ("Split returned [[1]] for `many`", "return a list of 2"),
}  # fmt: skip


@pytest.mark.parametrize("body", MISTAKES)
def test_mistakes_in_a_rule_are_errors_with_its_line(body: str, package: OpPackage, tmp_path: Path) -> None:
    message, hint = MISTAKES[body]
    name = next((name for name in ("Pool_dtypes", "Split") if name in message), "Pool")
    rules = rules_of(f"def {name}(op):\n    {body}\n", package, tmp_path)
    op = name.removesuffix("_dtypes")
    with pytest.raises(ShapeRuleFailed) as caught:
        rules.infer(op, X, outputs={"many": 2} if op == "Split" else None)
    assert message in caught.value.message and hint in caught.value.hint
    assert caught.value.message.startswith(str(tmp_path / "rules.py"))
    assert caught.value.exit_code == 5


def test_files_that_hold_no_rules(package: OpPackage, tmp_path: Path) -> None:
    for text, message in (
        ("def Pol(op):\n    return {}\n", "has no rule for any of the ops Pool, Split"),
        ("def Pool(op:\n", "rules.py:1: "),
        ("import nothing_of_this_name\n", "cannot be loaded: ModuleNotFoundError"),
    ):
        with pytest.raises(UsageError) as caught:
            rules_of(text, package, tmp_path)
        assert message in caught.value.message


def test_what_is_asked_must_fit_the_config(package: OpPackage, tmp_path: Path) -> None:
    rules = rules_of("def Pool(op):\n    return {'y': op.x.shape}\n", package, tmp_path)
    for inputs, params, message in (
        ({}, {}, "op `Pool` needs the input `x`"),
        ({**X, "z": Given((1,))}, {}, "op `Pool` has no input `z`"),
        (X, {"strid": 1}, "op `Pool` has no parameter `strid`: did you mean `stride`?"),
    ):
        with pytest.raises(UsageError) as caught:
            rules.infer("Pool", inputs, params)
        assert message in caught.value.message
    with pytest.raises(UsageError, match=r"has no .* `Pol`: did you mean `Pool`"):
        rules.infer("Pol", X)
