"""The facts that `udogen new --from-onnx` derives from a model, and those that it leaves to the user."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import tomllib
from onnx import helper

from tests import making
from tests.command_line import udogen
from tests.init import models
from tests.onnx_models import node, save
from udogen import UsageError
from udogen.init import project
from udogen.init.draft import Draft
from udogen.onnx.draft import from_onnx
from udogen.onnx.models.load import load_model
from udogen.onnx.source import find_reference
from udogen.opdef.model import Tensor
from udogen.resources import pip_install


def of_text(text: str, folder: Path, **options: object) -> list[Draft]:
    """Return the drafts of a model in onnx's text form; its head is the same for all."""
    path = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 20, "acme": 1]>\n{text}'), path)
    return from_onnx.drafts(path, **options)  # type: ignore[arg-type]


def of_nodes(
    nodes: list[onnx.NodeProto], folder: Path, constants: dict[str, object] | None = None, **ends: int
) -> list[Draft]:
    """Return the drafts of a model of nodes; inputs (x…) and outputs (y…) are floats of one axis with this length."""
    inputs, outputs = ({name: [size] for name, size in ends.items() if name[0] == side} for side in "xy")
    return from_onnx.drafts(save(folder / "model.onnx", nodes, inputs, outputs, constants))


def tensor(draft: Draft, name: str) -> Tensor:
    return next(each for each in draft.package.ops[0].tensors if each.name == name)


def words(draft: Draft, *about: str, decide: bool | None = None) -> list[str]:
    wanted = {None: ("note", "warning"), True: ("warning",), False: ("note",)}[decide]
    return [remark.message for remark in draft.remarks if remark.about == about and remark.severity in wanted]


# --- shapes and types -------------------------------------------------------------------------------------------------


def test_an_output_that_the_model_leaves_open_is_assumed_to_be_like_the_first_input(tmp_path: Path) -> None:
    text = "g (float[N, 3, 8] x, float[3] w) => (float[N, 3, 8] y) { h = acme.Mish (x)  y = acme.Gate (h, w) }"
    mish, gate = of_text(text, tmp_path)
    why = "the model does not define it: assumed to be like the first input"
    assert words(mish, "Mish", "output", decide=True) == [why]
    assert why not in words(gate, "Gate", "output", decide=True)
    assert [{name: each.shape for name, each in case.inputs.items()} for case in (*mish.cases, *gate.cases)] == [
        {"x": (1, 3, 8)}, {"input_0": (1, 3, 8), "w": (3,)}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "cpu", "htp"),
    [
        ("float", "FLOAT_32", "FLOAT_32"), ("float16", "FLOAT_32", "FLOAT_16"), ("double", "FLOAT_32", "FLOAT_32"),
        ("bfloat16", "FLOAT_32", "FLOAT_32"), ("int8", "INT_8", "INT_8"), ("int16", "INT_32", "INT_16"),
        ("int32", "INT_32", "INT_32"), ("int64", "INT_32", "INT_32"), ("uint8", "UINT_8", "UINT_8"),
        ("uint16", "UINT_32", "UINT_16"), ("uint32", "UINT_32", "UINT_32"), ("uint64", "UINT_32", "UINT_32"),
        ("bool", "BOOL_8", "BOOL_8"),
    ],
)  # fmt: skip
def test_every_type_of_onnx_becomes_one_that_the_backend_hands_to_an_op(
    kind: str, cpu: str, htp: str, tmp_path: Path
) -> None:
    from udogen.configs import resolve
    from udogen.findings import Findings

    [draft] = of_text(f"g ({kind}[4] x) => ({kind}[4] y) {{ y = acme.Copy (x) }}", tmp_path)
    assert project.of_drafts([draft]).warnings == []
    for backend, expected in (("cpu", cpu), ("htp", htp)):
        findings = Findings()
        package = resolve.for_backend(draft.package, backend, findings)
        assert [datatype.name for datatype in package.ops[0].inputs[0].datatypes] == [expected]
        assert findings.all() == ()


def test_a_text_is_no_tensor_of_qnn(tmp_path: Path) -> None:
    [draft] = of_text("g (string[4] x) => (float[4] y) { y = acme.Parse (x) }", tmp_path)
    assert words(draft, "Parse", "x", decide=True) == [
        "it is STRING in the model, which no backend has; FLOAT_32 is a placeholder"
    ]


def test_quantized_around(tmp_path: Path) -> None:
    [draft] = from_onnx.drafts(models.save("quantized", tmp_path))
    [plain, quantized] = draft.cases
    assert plain.name == "gained" and {each.dtype for each in plain.inputs.values()} == {"FLOAT_32"}
    assert quantized.name == "gained, quantized" and quantized.backends == ("htp",)
    assert quantized.inputs["input_0"].quant == (0.05, -128) and quantized.outputs["output"].quant == (0.1, -3)
    assert quantized.inputs["gain"].dtype == "SFIXED_POINT_8"
    assert [datatype.name for datatype in tensor(draft, "input_0").datatypes] == ["FLOAT_32", "UFIXED_POINT_8"]
    assert tensor(draft, "gain").static


# --- which nodes ------------------------------------------------------------------------------------------------------


def test_a_misspelt_standard_op_is_recognized(tmp_path: Path) -> None:
    [draft] = of_nodes([node("Reluu", "x", "y")], tmp_path, x=3, y=3)
    remark = draft.remarks[0]
    assert remark.message == "it is in ONNX's own domain, which has no such op; did you mean Relu?"
    assert remark.severity == "warning"
    assert [op.name for op in draft.package.ops] == ["Reluu"]


def test_published_ops_are_not_custom_and_may_be_named(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    text = (
        '<ir_version: 10, opset_import: ["": 20]>\ng (float[2, 3] x) => (float[2, 3] y) { y = Softmax <axis = 1> (x) }'
    )
    onnx.save(onnx.parser.parse_model(text), path)
    with pytest.raises(UsageError) as caught:
        from_onnx.drafts(path)
    assert caught.value.message == "m.onnx has no custom ops: all nodes are ops of ONNX or ONNX Runtime"
    assert caught.value.hint == "name one of them with --op; it has Softmax (1)"
    [draft] = from_onnx.drafts(path, wanted=["Softmax"])
    assert draft.references == {"Softmax": "onnx:Softmax"}
    assert tensor(draft, "axis").default == -1, "as ONNX has it"
    assert draft.cases[0].params == {"axis": 1}
    with pytest.raises(UsageError) as caught:
        from_onnx.drafts(path, wanted=["acme::Softmax"])
    assert caught.value.message == "m.onnx has no node of type acme::Softmax"
    assert caught.value.hint == "it has: Softmax (1)"


def test_ops_inside_of_functions_of_exporters_are_found_and_functions_around_them_are_not_ops(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["": 20, "pkg.block": 1, "acme": 1, "mod": 1]>
    g (float[2, 3] x) => (float[2, 3] y) { h = mod.Layer (x)  y = pkg.block.Norm (h) }
    <opset_import: ["": 20, "acme": 1], domain: "mod"> Layer (a) => (b) { c = Relu (a)  b = acme.Inner <k = 2> (c) }
    <opset_import: ["": 20], domain: "pkg.block"> Norm (a) => (b) { b = Sqrt (a) }
    """
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    loaded = load_model(path)
    assert [str(op) for op in loaded.ops] == ["acme::Inner"]
    assert [node.op.type for node in loaded.model.graph.nodes] == ["Relu", "Inner", "Sqrt"]
    [draft] = from_onnx.drafts(path, wanted=["mod::Layer"])
    assert [(op.name, op.inputs[0].name, op.outputs[0].name) for op in draft.package.ops] == [("Layer", "a", "b")]


def test_ops_of_one_type_in_two_domains_get_two_names(tmp_path: Path) -> None:
    nodes = [node("Scale", "x", "h", domain="acme"), node("scale", "h", "y", domain="other")]
    first, second = of_nodes(nodes, tmp_path, x=3, y=3)
    assert [draft.package.ops[0].name for draft in (first, second)] == ["Scale", "other_scale"]
    assert [draft.package.domain for draft in (first, second)] == ["acme", "other"]
    assert words(second, "other_scale", decide=True) == [
        "the model calls it other::scale, which cannot be its name here; converters look for the model's name"
    ]


# --- inputs, outputs, attributes --------------------------------------------------------------------------------------


def test_optional_inputs_and_outputs(tmp_path: Path) -> None:
    [draft] = from_onnx.drafts(models.save("optional_inputs", tmp_path))
    [op] = draft.package.ops
    assert [(each.name, each.mandatory) for each in op.inputs] == [("boxes", True), ("scores", False), ("limit", True)]
    assert [each.mandatory for each in op.outputs] == [True, False, False]
    assert [list(case.inputs) for case in draft.cases] == [["boxes", "scores", "limit"], ["boxes", "limit"]]


def test_repeated_inputs(tmp_path: Path) -> None:
    [draft] = from_onnx.drafts(models.save("repeated_inputs", tmp_path))
    [op] = draft.package.ops
    assert [(each.name, each.repeated) for each in op.inputs] == [("inputs", True)]
    assert op.backends == ("CPU",)
    assert words(draft, "Interleave", decide=True) == [
        "HTP (DSP V68 and later) is left out, as `inputs` is repeated, which it does not support"
    ]
    assert words(draft, "Interleave", "inputs", decide=True) == [
        "uses have 2 or 3 inputs, alike from here on, so it is treated as repeated; or are the last optional?"
    ]


def test_one_input_more_is_optional(tmp_path: Path) -> None:
    text = "g (float[4] x, int32[2] i) => (float[4] y, float[4] z) { y = acme.Op (x)  z = acme.Op (x, i) }"
    [draft] = of_text(text, tmp_path)
    assert [(each.name, each.mandatory, each.repeated) for each in draft.package.ops[0].inputs] == [
        ("x", True, False),
        ("i", False, False),
    ]
    assert words(draft, "Op", "i", decide=True) == [
        "uses have 1 or 2 inputs, so the last ones are treated as optional; or is it one repeated input?"
    ]


def test_an_empty_constant_is_an_input_that_is_left_out(tmp_path: Path) -> None:
    """Like `roi` of Resize in opset 11."""
    nodes = [node("Op", "x none x", "y", domain="acme")]
    [draft] = of_nodes(nodes, tmp_path, {"none": np.zeros(0, np.float32)}, x=3, y=3)
    assert [each.mandatory for each in draft.package.ops[0].inputs] == [True, False, True]
    assert list(draft.cases[0].inputs) == ["x", "input_2"] and draft.cases[0].backends == ("cpu",)


def test_an_input_that_is_constant_only_sometimes(tmp_path: Path) -> None:
    text = """g (float[4] x, float[4] w) => (float[4] y, float[4] z) <float[4] c = {1, 2, 3, 4}> {
      y = acme.Mix (x, c)  z = acme.Mix (x, w) }"""
    [draft] = of_text(text, tmp_path)
    assert not draft.package.ops[0].inputs[1].static
    assert words(draft, "Mix", "input_1", decide=True) == [
        "it is constant in 1 of 2 uses; must it always be? then it is a static tensor"
    ]


def test_attributes_of_every_kind(tmp_path: Path) -> None:
    [draft] = from_onnx.drafts(models.save("attributes", tmp_path))
    [op] = draft.package.ops
    assert {param.name: (param.datatypes[0].name, str(param.rank), param.default) for param in op.params} == {
        "class": ("INT_32", "SCALAR", 1),
        "large": ("INT_64", "SCALAR", 1 << 40),
        "mode": ("UINT_32", "SCALAR", 0),
        "number": ("INT_32", "SCALAR", 3),
        "real": ("FLOAT_32", "SCALAR", 0.1),
        "settings": ("STRING", "SCALAR", '{"a": [1, 2]}'),
        "single": ("FLOAT_32", "SCALAR", 2.5),
        "pads": ("INT_32", "1D", (0, 1, 2, 3)),
        "scales": ("FLOAT_32", "1D", (0.5, 2.0)),
        "table": ("INT_32", "2D", ((0, 1, 2), (3, 4, 5))),
    }
    assert tensor(draft, "mode").enum == ("bilinear",)
    assert words(draft, "Everything", decide=True) == [
        "attribute `body` is a graph, which QNN has no parameter for; it is left out",
        "attribute `names` is a list of texts, which QNN has no parameter for; it is left out",
        "HTP (DSP V68 and later) is left out, as `settings` is a string, which it does not support",
    ]


@pytest.mark.parametrize(
    ("uses", "mandatory", "default", "sentence"),
    [
        ("0.5 0.5", False, 0.5, "the default is what both uses have"),
        ("0.5 0.25", True, None, "in the model: 0.5, 0.25"),
        (
            "0.5 -",
            False,
            None,
            "1 of 2 uses leave it out, and the model does not define its value: add a <Default>",
        ),
        ("0.5 1", True, None, "in the model: 0.5, 1.0"),
    ],
)
def test_defaults(uses: str, mandatory: bool, default: float | None, sentence: str, tmp_path: Path) -> None:
    values = [None if text == "-" else int(text) if text.isdigit() else float(text) for text in uses.split()]
    nodes = [
        node("Op", "x", f"y{n}", domain="acme", **({} if value is None else {"rate": value}))
        for n, value in enumerate(values)
    ]
    [draft] = of_nodes(nodes, tmp_path, x=3, y0=3, y1=3)
    rate = tensor(draft, "rate")
    assert (rate.mandatory, rate.default) == (mandatory, default)
    assert words(draft, "Op", "rate") == [sentence]


def test_the_function_of_a_model_gives_names_defaults_and_the_reference(tmp_path: Path) -> None:
    [draft] = from_onnx.drafts(models.save("function_style", tmp_path))
    assert [each.name for each in draft.package.ops[0].tensors] == ["data", "result", "beta"]
    assert tensor(draft, "beta").default == 1.0 and draft.cases[0].params == {"beta": 1.5}
    assert draft.references == {"Swish": "onnx:Swish.reference.onnx"}
    (tmp_path / "Swish.reference.onnx").write_bytes(draft.files["Swish.reference.onnx"])
    x = np.linspace(-3, 3, 12).reshape(2, 6)  # 64-bit floats, which the function would not accept
    [found] = find_reference("Swish.reference.onnx", tmp_path)(x, beta=1.5)
    assert np.allclose(found, x / (1 + np.exp(-1.5 * x)), atol=1e-6)


def test_the_function_of_a_model_becomes_a_kernel(tmp_path: Path) -> None:
    [draft] = from_onnx.drafts(models.save("function_style", tmp_path))
    assert draft.files["kernels/Swish.py"].decode().split("\n\n\n")[1].splitlines() == [
        "def Swish(data, result, beta):",
        "    data = onnx.flat(data)",
        "    scaled = onnx.Mul(data, onnx.constant(beta))",
        "    gate = onnx.Sigmoid(scaled)",
        "    result_ = onnx.Mul(data, gate)",
        "    onnx.store(result, result_)",
    ]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("result = NonZero (data)", "node `result` (NonZero): udogen writes no kernel of NonZero"),
        ("result = Softmax <axis: int = @axis> (data)", "node `result` (Softmax) takes the attribute `axis` of Op"),
    ],
)
def test_why_a_function_becomes_no_kernel(body: str, reason: str, tmp_path: Path) -> None:
    text = f"""<ir_version: 10, opset_import: ["" : 20, "local" : 1]>
        main (float[2, 6] x) => (y) {{ y = local.Op <axis = 1> (x) }}
        <opset_import: ["" : 20], domain: "local"> Op <axis> (data) => (result) {{ {body} }}"""
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), str(path))
    [draft] = from_onnx.drafts(path)
    assert draft.files.keys() == {"Op.reference.onnx"}
    assert f"a kernel cannot be made of its body in the model: {reason}" in words(draft, "Op")


# --- written files ----------------------------------------------------------------------------------------------------


def test_the_test_file_is_toml_with_the_shapes_of_the_model(tmp_path: Path) -> None:
    done = udogen("new", tmp_path / "project", "--from-onnx", models.save("quantized", tmp_path))
    assert done.returncode == 0, done.stderr
    words = tomllib.loads((tmp_path / "project" / "op_tests.toml").read_text())
    assert words["config"] == "Gain.xml" and words["op"][0]["name"] == "Gain"
    assert words["op"][0]["case"][1] == {
        "name": "gained, quantized",
        "backends": ["htp"],
        "shape": {"input_0": "1x4x16", "gain": "16", "output": "1x4x16"},
        "dtype": {"input_0": "UFIXED_POINT_8", "gain": "SFIXED_POINT_8", "output": "UFIXED_POINT_8"},
        "quant": {
            "input_0": {"scale": 0.05, "offset": -128},
            "gain": {"scale": 0.25, "offset": 0},
            "output": {"scale": 0.1, "offset": -3},
        },
    }


def test_open_axes_have_the_given_sizes(tmp_path: Path) -> None:
    text = "g (float[N, seq, 3] x) => (float[N, seq, 3] y) { y = acme.Op (x) }"
    for dims, shape in (({}, (1, 8, 3)), ({"seq": 5, "n": 2}, (2, 5, 3))):
        [draft] = of_text(text, tmp_path, dims=dims)
        assert draft.cases[0].inputs["x"].shape == shape


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = models.save("subgraphs", tmp_path)
    (tmp_path / "op_tests.toml").write_text("mine")
    done = udogen("new", tmp_path, "--from-onnx", path)
    assert done.returncode == 2
    assert f"error: {tmp_path / 'op_tests.toml'} exists and is different; nothing was written" in done.stderr
    assert not (tmp_path / "Decay.xml").exists() and (tmp_path / "op_tests.toml").read_text() == "mine"
    (tmp_path / "op_tests.toml").unlink()
    for action in ("created", "unchanged"):
        done = udogen("new", tmp_path, "--from-onnx", path, "--json")
        reply = json.loads(done.stdout)
        assert {each["action"] for each in reply["files"]} == {action} and len(reply["files"]) == 7, done.stderr
    done = udogen("check", tmp_path / "Decay.xml", "--strict")
    assert done.returncode == 0, done.stderr


def test_comments_name_open_points(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model = models.repeated_inputs()
    model.graph.node[0].attribute.append(helper.make_attribute("mode--", "a"))
    onnx.save(model, path)
    done = udogen("new", tmp_path / "project", "--from-onnx", path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "project" / "Interleave.xml").read_text()
    assert "<!-- TODO: uses have 2 or 3 inputs, alike from here on" in text
    assert "  Interleave.inputs: uses have 2 or 3 inputs, alike from here on" in done.stderr
    assert udogen("check", tmp_path / "project" / "Interleave.xml").returncode == 0


# --- large and broken -------------------------------------------------------------------------------------------------


def test_the_values_of_large_weights_are_not_kept(tmp_path: Path) -> None:
    nodes = [node("Op", "x a.weight", "y", domain="acme")]
    [draft] = of_nodes(nodes, tmp_path, {"a.weight": np.zeros((50, 50), np.float32)}, x=3, y=3)
    weight = draft.cases[0].inputs["weight"]
    assert (weight.shape, weight.values) == ((50, 50), None)


def test_external_data_is_not_looked_for(tmp_path: Path) -> None:
    path = models.save("torch_style", tmp_path)
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    (tmp_path / "weights.bin").unlink()
    [draft] = from_onnx.drafts(path)
    assert [each.static for each in draft.package.ops[0].inputs] == [False, True, True]
    assert draft.cases[0].inputs["weight"].values is None


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04rest", "is not an ONNX model: it is a ZIP archive; a model of PyTorch must be exported"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is not an ONNX model: it is a pointer of Git LFS"),
        (b"\x1c\0\0\0TFL3", "is not an ONNX model: it is a TensorFlow Lite model; tf2onnx makes ONNX of it"),
        (b"\x08\x00\x00\x00ORTM", "is not an ONNX model"),
        (b"<html>", "is not an ONNX model: it is an XML or HTML text"),
        (b"\x08\x0a", "is not an ONNX model that can be read: it contains no graph"),
        (b"\x08\x0a\x3a\x7f\x0a", "is not an ONNX model that can be read: protobuf cannot read it"),
        (b"\xff" * 40, "is not an ONNX model that can be read: protobuf cannot read it"),
    ],
)
def test_broken_models_give_a_sentence(data: bytes, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    for arguments in (
        ("new", tmp_path / "p", "--from-onnx", path),
        ("inspect", path, "--mermaid", "--json"),
    ):
        done = udogen(*arguments)
        assert done.returncode == 2
        assert sentence in done.stderr + done.stdout and "Traceback" not in done.stderr


def test_a_missing_model_and_a_missing_onnx(tmp_path: Path) -> None:
    done = udogen("new", tmp_path / "p", "--from-onnx", tmp_path / "none.onnx")
    assert done.returncode == 2
    assert done.stderr == (
        f"error: {tmp_path / 'none.onnx'} cannot be read: No such file or directory\n"
        "  = give the path of an ONNX model\n"
    )
    (tmp_path / "onnx.py").write_text("raise ModuleNotFoundError(\"No module named 'onnx'\", name='onnx')")
    path = models.save("subgraphs", tmp_path)
    done = making.udogen("new", tmp_path / "p", "--from-onnx", path, env={"PYTHONPATH": f"{tmp_path}:{making.ROOT}"})
    assert done.returncode == 3
    assert done.stderr == (f"error: the Python package onnx is not installed\n  = {pip_install('onnx')}\n")


def test_bytes_at_random_never_end_in_a_traceback(tmp_path: Path) -> None:
    import random

    from udogen import UdogenError

    dice = random.Random(2026)
    originals = [models.save(name, tmp_path).read_bytes() for name in models.ALL]
    path, usable = tmp_path / "m.onnx", 0
    for _ in range(150):
        data = bytearray(dice.choice(originals))
        for _ in range(dice.choice((1, 1, 2))):
            data[dice.randrange(len(data))] = dice.randrange(256)
        path.write_bytes(data)
        try:
            project.of_drafts(from_onnx.drafts(path))
            usable += 1
        except UdogenError as fault:
            assert fault.exit_code == 2
    assert usable > 20


def test_no_file_stays_open(tmp_path: Path) -> None:
    good, bad = models.save("subgraphs", tmp_path), tmp_path / "bad.onnx"
    bad.write_bytes(good.read_bytes()[:-20])
    from_onnx.drafts(good)

    def count() -> tuple[int, int]:
        maps = Path("/proc/self/maps").read_text()
        return len(list(Path("/proc/self/fd").iterdir())), maps.count(str(tmp_path))

    before = count()
    for _ in range(10):
        from_onnx.drafts(good)
        with pytest.raises(UsageError):
            from_onnx.drafts(bad)
    assert count() == before
