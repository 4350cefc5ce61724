"""`udogen new NAME`: an op from flags; all mistakes at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import udogen
from udogen import backends
from udogen.configs.load import load
from udogen.errors import UsageError
from udogen.init import from_flags
from udogen.opdef.model import Rank


def test_flags(tmp_path: Path) -> None:
    config = tmp_path / "clip_to" / "ClipTo.xml"
    done = udogen(
        "new", tmp_path / "clip_to", "--backend", "cpu", "--package", "MyOps",
        "--input", "x:FLOAT_32,UFIXED_POINT_8:4D", "--input", "limits:FLOAT_32:1D:static",
        "--input", "mask:BOOL_8:optional",
        "--output", "y:FLOAT_32:4D", "--param", "axis:INT_32=-1", "--param", "pads:INT_32:1D=[0, 1]",
        "--param", "mode:FLOOR|ROUND=ROUND", "--param", "scale",
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.startswith(f"{config}: created\n"), done.stderr
    [package], problems = load([config])
    assert problems.all() == () and package.name == "MyOps"
    [op] = package.ops
    assert [(tensor.name, tensor.rank, tensor.mandatory, tensor.static) for tensor in op.inputs] == [
        ("x", Rank((4,)), True, False),
        ("limits", Rank((1,)), True, True),
        ("mask", Rank(), False, False),
    ]
    assert [datatype.name for datatype in op.inputs[0].datatypes] == ["FLOAT_32", "UFIXED_POINT_8"]
    assert [
        (param.name, param.datatypes[0].name, param.default, param.mandatory, param.enum) for param in op.params
    ] == [
        ("axis", "INT_32", -1, False, ()),
        ("mode", "UINT_32", 1, False, ("FLOOR", "ROUND")),
        ("scale", "FLOAT_32", None, True, ()),
        ("pads", "INT_32", (0, 1), False, ()),
    ]
    assert op.backends == ("CPU",)


def test_what_is_usual(tmp_path: Path) -> None:
    assert udogen("new", tmp_path / "copy", "--input", "x").returncode == 0
    [package], _ = load([tmp_path / "copy" / "Copy.xml"])
    assert package.name == "CopyOpPackage"
    [op] = package.ops
    assert [tensor.name for tensor in op.outputs] == ["output"] and backends.of_op(op, package) == ("cpu", "htp")


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    done = udogen(
        "new", "foo", "--input", "x:FLOT_32", "--input", "ü", "--output", "y:static",
        "--param", "axis:INT_32=1.5", "--param", "mode:A|B=C", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == (
        "error: Foo: 5 faults in its description\n"
        "  --input x:FLOT_32: `FLOT_32` is neither a data type nor a rank; did you mean FLOAT_32?\n"
        "  --input ü: the name `ü` has characters that are not allowed in a name: 'ü'\n"
        "  --output y:static: `static` is neither a data type nor a rank\n"
        "  --param axis:INT_32=1.5: the default is 1.5, but INT_32 holds integers\n"
        "  --param mode:A|B=C: `C` is not a value of type UINT_32\n"
        "  = tensors as in x:FLOAT_32:4D, x:FLOAT_32,UFIXED_POINT_8, weight:FLOAT_32:1D:static; ranks: 0D … 5D, ND\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("inputs", "params", "sentence"),
    [
        (
            ["x", "x"],
            [],
            "of `Op` are called `x`: the first one is at --input x; rename one",
        ),
        (["in[0]", "in_0"], [], "`in[0]` and `in_0` of `Op` become the same C++ name `in_0`: rename one"),
        ([], [], "it has no input"),
        (
            ["a:repeated", "b:repeated"],
            [],
            "`Op` has more than one repeated input: their boundaries would be ambiguous; keep one",
        ),
        (
            ["x"],
            ["e:FLOAT_32:A|B"],
            "parameter `e` of `Op` has an enumeration, but is not an integer: use UINT_32 or INT_32",
        ),
        (["x"], ["e:A|A"], "`A` occurs twice in the enumeration of `e`: remove one"),
    ],
)
def test_mistakes_of_the_whole(inputs: list[str], params: list[str], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        from_flags.draft("Op", inputs=inputs, outputs=["y"], params=params)
    assert any(sentence in detail for detail in caught.value.details), caught.value.details


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["new"], "error: the project has no name\n"),
        (["new", "--from-onnx", "m.onnx"], "error: the project has no name\n  = udogen new NAME --from-onnx m.onnx\n"),
        (["new", "p", "--input", "x", "--from-onnx", "m.onnx"], "error: --input means nothing with --from-onnx\n"),
        (["new", "p", "--from-config", "a", "--from-onnx", "b"], "error: --from-onnx and --from-config exclude"),
        (["new", "p", "--input", "x", "--dim", "n=2"], "error: --dim is for --from-onnx\n"),
        (["new", "p", "--from-onnx", "m.onnx", "--dim", "n=x"], "error: --dim n=x: that is not a size\n"),
        (["new", "p", "--input", "in[0]", "--kernel", "python"], "error: a kernel of P in Python cannot have an arg"),
    ],
)
def test_misuse(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = udogen(*arguments, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith(message), done.stderr
