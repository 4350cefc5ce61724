"""Test files: their keys, and all mistakes of a file reported at once, with their lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.opdef import texts
from tests.verify import toy
from udogen import Case, ConfigError, UdogenError, UsageError
from udogen.findings import Findings
from udogen.verify.test_files import configs, read, references
from udogen.verify.test_files.expand import cases_of, load_examples
from udogen.verify.test_files.model import GivenNumbers, Subject
from udogen.verify.test_files.read import load_test_files, read_file
from udogen.verify.test_files.values import Fill
from udogen.verify.tolerances import Tolerance


def problems_of(folder: Path, text: str) -> list[str]:
    """Return `line: what (hint)` for every mistake."""
    toy.write(folder, text)
    with pytest.raises(ConfigError) as caught:
        configs.sources(load_test_files(folder))
    assert all(finding.location.file == str(folder / "op_tests.toml") for finding in caught.value.findings)
    return [f"{finding.location.line}: {finding.message} ({finding.hint})" for finding in caught.value.findings]


def cases(folder: Path, text: str, backend: str = "cpu") -> list[Case]:
    toy.write(folder, text)
    return cases_in(folder, backend)


def cases_in(folder: Path, backend: str = "cpu") -> list[Case]:
    suite, known = configs.sources(load_test_files(folder))
    return [
        case
        for tests in suite.ops
        if (package := known[tests.subject].package(tests.op))
        for case in cases_of(tests, package, backend)
    ]


def test_every_mistake_is_reported_with_its_line(tmp_path: Path) -> None:
    text = """\
kernel = "kernels"
config = 5

[[op]]
name = "Scale"
shapes = "3x5"

[[op.case]]
shape = ["3x5", "3y5"]
dtype = "FLOAT_23"
values = "guess"
seed = -1

[[op.case]]
params = [1]
quant = { x = { low = 2 } }
tolerance = "near"
backends = ["npu"]
expect = "wonders"
loops = 3

[[op]]
reference = ""
loops = 0
builtin = { name = "Softmax" }
operations = "many"

[[op]]
name = "Scale"
backends = [["cpu"]]
builtin = { op = "Relu", params = 3 }
"""
    assert problems_of(tmp_path, text) == [
        '1: `kernel` is not a known key (did you mean `kernels`?)',
        '2: `config` must be a path, not 5 (relative to the folder of this file)',
        '6: `shapes` is not a known key (did you mean `shape`?)',
        '9: `shape`: `3y5` is not a shape (as in "1x8x8x16", or [1, 8, 8, 16]; several: ["3x5", "7"], [{ a = '
        '"2x3", b = "3" }, …])',
        '10: `dtype`: `FLOAT_23` is not a data type (as in FLOAT_32, FLOAT_16, UFIXED_POINT_8, INT_32)',
        '11: `values`: `guess` is not a way to fill a tensor; there are normal, uniform, integers, ramp, '
        'constant, edge, nonfinite (as in normal, uniform(-3, 3), edge, x.npy, or a list of numbers)',
        '12: `seed`: -1 is out of range: 0 or more (as in seed = 1, or seed = [1, 2, 3])',
        '15: `params` must be an object, not a list of 1 (write it in braces: {…})',
        '16: `x`: the quantization has neither low and high nor a positive scale (as in { low = -6, high = 6 '
        '}: real numbers to cover; or { scale = 0.05, offset = -128 })',
        '17: `tolerance`: `near` is not a tolerance: as in 1e-6, "1e-5 relative", "4 ulp", "1e-6 + 2 ulp", '
        '"1 step", "exact" (by data type: { FLOAT_16 = 2e-3, fixed = 1 })',
        "18: `backends`: 'npu' is not allowed (one of: cpu, gpu, htp, hexagon, dsp, cpu-emulator, htp-emulator, "
        'cpu-ort, htp-ort)',
        "19: `expect`: 'wonders' is not allowed (one of: numbers, refusal)",
        '20: `loops` is not a known key (known keys: name, shape, dtype, values, seed, params, quant, count, '
        'tolerance, backends, expect)',
        '22: `name` is missing (as in name = "Softmax")',
        '23: `reference`: this must be a string that is not empty ()',
        '24: `loops`: 0 is out of range: 1 to 1000000 (executions that are timed, as in loops = 100)',
        '25: `name` is not a known key (known keys: op, package, params)',
        '25: `op` is missing (add `op`)',
        "26: `operations` must be a number, not 'many' (write it without quotes)",
        "30: `backends`: a list of 1 is not allowed (one of: cpu, gpu, htp, hexagon, dsp, cpu-emulator, htp-emulator, "
        'cpu-ort, htp-ort)',
        "31: `params` must be an object, not 3 (write it in braces: {…})",
    ]  # fmt: skip


@pytest.mark.parametrize("value", ["2020-01-01", "{ a = 2020-01-01T00:00:00Z }"])
@pytest.mark.parametrize(
    "row",
    ["shape = V",
     "dtype = V", "values = V", "values = { x = [V] }", "seed = V", "params = V", "params = { factor = V }",
     "params = { factor = [[V]] }", "quant = V", "quant = { x = V }", "quant = { x = { scale = V } }", "tolerance = V",
     "quant = { x = { low = -1, high = V } }", "count = { x = V }", "backends = V", "expect = V", "name = V"],
)  # fmt: skip
def test_a_date_is_no_value(row: str, value: str, tmp_path: Path) -> None:
    found = problems_of(tmp_path, f'[[op]]\nname = "Scale"\n[[op.case]]\n{row.replace("V", value)}\n')
    assert found and all(each.startswith("4: ") and "datetime" not in each for each in found), found


def test_a_number_of_5000_digits_is_no_shape(tmp_path: Path) -> None:
    [found] = problems_of(tmp_path, f'[[op]]\nname = "Scale"\n[[op.case]]\nshape = "{"9" * 5000}"\n')
    assert found.startswith("4: ") and "is not a shape" in found


@pytest.mark.parametrize("shape", ["16385x16385", "x".join("1" * 9)])
def test_a_shape_that_is_too_large_is_an_error(shape: str, tmp_path: Path) -> None:
    [found] = problems_of(tmp_path, f'[[op]]\nname = "Scale"\n[[op.case]]\nshape = "{shape}"\n')
    assert found.startswith(f"4: `shape`: `{shape}` is too large for a test (at most 8 axes and 268435456 elements")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("value", "message"),
    [("1e39", "`params`: `factor` does not fit into FLOAT_32"), ("[[1.0]]", "`params`: `factor` is one number")],
)
def test_a_parameter_that_cannot_be_passed_is_an_error_of_the_case(value: str, message: str, tmp_path: Path) -> None:
    text = f'[[op]]\nname = "Scale"\nreference = "reference.py:scale"\n[[op.case]]\nparams = {{ factor = {value} }}\n'
    found = cases(tmp_path, text)
    assert found and {each.error.message if each.error else "" for each in found} == {message}


def test_names_and_types_are_compared_with_the_config(tmp_path: Path) -> None:
    text = """\
[[op]]
name = "Scale"

[[op.case]]
shape = { z = "3" }
params = { facto = 1 }
dtype = ["FLOAT_32", "INT_32"]
values = { y = "normal" }
quant = { w = { scale = 1.0 } }
count = { x = 2 }

[[op]]
name = "Scail"
"""
    assert problems_of(tmp_path, text) == [
        "5: `shape`: op `Scale` has no input or output `z` (it has x, y)",
        "6: `params`: op `Scale` has no parameter `facto` (did you mean `factor`?)",
        "7: `dtype`: op `Scale` is never of INT_32 (it can be FLOAT_32, UFIXED_POINT_8)",
        "8: `values`: op `Scale` has no input `y` (it has x)",
        "9: `quant`: op `Scale` has no input or output `w` (it has x, y)",
        "10: `count`: op `Scale` has no repeated input `x` (it has none)",
        f"12: {tmp_path / 'Toy.xml'} has no op `Scail` (did you mean `Scale`?)",
    ]


def test_mistakes_in_networks(tmp_path: Path) -> None:
    text = """[[network]]
backends = ["gpu"]
bits = [16]
inputs = "x.npy"
tolerance = "1 step"
modle = "net.onnx"
"""
    assert problems_of(tmp_path, text) == [
        '1: `model` is missing (`modle` exists; did you mean `model`?)',
        "2: `backends`: 'gpu' is not allowed (one of: cpu, htp)",
        '3: `bits`: a network has no `16` bits (as in bits = "float", or ["float", 8])',
        "4: `inputs` must be an object, not 'x.npy' (write it in braces: {…})",
        "5: `tolerance` must be a number, not '1 step' (write it without quotes)",
        '6: `modle` is not a known key (did you mean `model`?)',
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        ("[[op]]\nname = \n", 2, "invalid TOML: invalid value"),
        ("op = 5", 1, "`op` must be a list of tables"),
        ("[op]\nname = 'Scale'", 1, "`op` must be a list of tables"),
        ("# nothing", 0, "the file names no op"),
    ],
)
def test_what_is_no_test_file(tmp_path: Path, text: str, line: int, sentence: str) -> None:
    (tmp_path / "op_tests.toml").write_text(text)
    findings = Findings()
    assert read_file(tmp_path / "op_tests.toml", findings).ops == []
    [finding] = findings.errors
    assert finding.message.startswith(sentence) and finding.location.line == line


def test_a_folder_without_a_test_file_or_config(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no test file \(op_tests\.toml, or") as caught:
        load_test_files(tmp_path)
    assert caught.value.hint == "`udogen new NAME --from-config CONFIG` makes a project with one"
    (tmp_path / "op_tests.toml").write_text('[[op]]\nname = "Scale"\n')
    with pytest.raises(UsageError, match="has no config, and no packages") as caught:
        configs.sources(load_test_files(tmp_path))
    assert caught.value.hint.startswith('name it in the test file: config = "MyOp.xml"')
    with pytest.raises(UsageError, match="there is no folder"):
        load_test_files(tmp_path / "nowhere")


# --- cases ----------------------------------------------------------------------------------------


def test_every_combination_is_a_case(tmp_path: Path) -> None:
    text = (
        toy.HEAD
        + """
[[op.case]]
shape = ["7", [2, 3]]
params = { factor = ["default", 3] }
seed = [1, 2]
values = ["normal", "edge"]
"""
    )
    found = cases(tmp_path, text)
    assert len(found) == 2 * 2 * 2 * 2 * 2
    assert len({(case.name, tuple(case.dtypes.items())) for case in found}) == len(found)
    assert [case.name for case in found[:5]] == [
        "7, factor=default, normal, seed 1",
        "7, factor=default, normal, seed 2",
        "7, factor=3, normal, seed 1",
        "7, factor=3, normal, seed 2",
        "2x3, factor=default, normal, seed 1",
    ]
    assert {case.params.get("factor", 2) for case in found} == {2, 3}
    for case in found:
        if case.dtypes["x"] == "FLOAT_32":
            factor = case.params.get("factor", 2)
            with np.errstate(over="ignore"):
                np.testing.assert_array_equal(case.expected["y"], np.float32(case.inputs["x"].astype(float) * factor))


def test_keys_of_an_op_hold_for_its_cases(tmp_path: Path) -> None:
    text = (
        toy.HEAD
        + """
shape = "3"
params = { factor = 5 }
tolerance = { float = 1 }
[[op.case]]
[[op.case]]
name = "other"
shape = "4"
params = { factor = 6 }
tolerance = { fixed = 2 }
dtype = "UFIXED_POINT_8"
"""
    )
    *firsts, last = cases(tmp_path, text)
    assert [case.name for case in firsts] == ["3, factor=5", "3, factor=5"]
    assert last.name == "other: 4, factor=6"
    assert last.params == {"factor": 6}
    assert firsts[0].tolerance_of("y") == Tolerance(1)
    assert last.tolerance_of("y") == Tolerance(2)


def test_fixed_point_is_quantized_and_the_reference_computes_on_real_numbers(tmp_path: Path) -> None:
    text = (
        toy.HEAD
        + """
[[op.case]]
shape = "256"
dtype = "UFIXED_POINT_8"
values = "ramp"
quant = { x = { scale = 0.5, offset = -100 }, y = { low = -20, high = 20 } }
"""
    )
    [case] = cases(tmp_path, text)
    np.testing.assert_array_equal(case.inputs["x"], np.arange(256, dtype=np.uint8))
    assert case.quants["x"] == (0.5, -100)
    scale, offset = case.quants["y"]
    real = (np.arange(256) - 100) * 0.5 * 2
    np.testing.assert_array_equal(case.expected["y"], np.clip(np.rint(real / scale) - offset, 0, 255))
    assert case.tolerance_of("y") == Tolerance(1)


def test_without_a_quantization_the_numbers_are_covered(tmp_path: Path) -> None:
    [case] = cases(tmp_path, toy.HEAD + 'dtype = "UFIXED_POINT_8"\nshape = "1000"\n')
    for stored in (case.inputs["x"], case.expected["y"]):
        assert stored.min() == 0 and stored.max() == 255
    assert case.quants["y"][0] == pytest.approx(2 * case.quants["x"][0])


def test_numbers_may_be_given(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.float32([[4, 5]]))
    text = (
        toy.HEAD
        + """
dtype = "FLOAT_32"
[[op.case]]
values = { x = [[1, 2, 3]] }
[[op.case]]
values = "x.npy"
shape = "1x2"
"""
    )
    one, two = cases(tmp_path, text)
    assert one.inputs["x"].tolist() == [[1, 2, 3]] and one.expected["y"].tolist() == [[2, 4, 6]]
    assert two.inputs["x"].tolist() == [[4, 5]]


def test_tails_are_cases_on_hexagon_without_given_shapes(tmp_path: Path) -> None:
    text = toy.HEAD + 'backends = ["htp", "hexagon", "dsp"]\n[[op.case]]\nparams = { factor = [2, 3] }\n'
    tails = [case for case in cases(tmp_path, text, "htp") if case.name.startswith("tails: ")]
    lengths = (1, 63, 64, 65, 127, 128, 129)
    assert [case.inputs["x"].shape for case in tails] == [*((n,) for n in lengths), *((3, n) for n in lengths)]
    assert {case.places for case in tails} == {("hexagon",)}
    assert {case.dtypes["x"] for case in tails} == {"UFIXED_POINT_8"}
    assert {case.params["factor"] for case in tails} == {2}
    # A package for DSP only has the first type, which has 32 bits here.
    assert not [case for case in cases(tmp_path, text, "dsp") if case.name.startswith("tails")]
    for other in (text.replace('"hexagon", ', ""), text + 'shape = "4"\n', text + 'expect = "refusal"\n'):
        assert not [case for case in cases(tmp_path, other, "htp") if case.name.startswith("tails")]


def test_shapes_of_our_choice_and_empty_and_one_sized_axes(tmp_path: Path) -> None:
    assert [case.name for case in cases(tmp_path, toy.HEAD + 'dtype = "FLOAT_32"\n')] == ["7", "3x5", "1x8x8x16"]
    found = cases(tmp_path, toy.HEAD + 'shape = ["0x5", "1x1", "scalar"]\n')
    assert [case.inputs["x"].shape for case in found] == [(0, 5), (1, 1), (), (0, 5), (1, 1), ()]
    assert all(case.error is None for case in found)


def test_other_backends_have_no_cases_unless_the_file_names_them(tmp_path: Path) -> None:
    assert cases(tmp_path, toy.HEAD, "htp") == []
    [case] = cases(tmp_path, toy.HEAD + 'backends = "htp"\ndtype = "FLOAT_32"\nshape = "3"\n', "htp")
    assert case.places == ("htp", "htp-emulator", "htp-ort") and case.runs_on("htp") and not case.runs_on("hexagon")


def test_a_reference_that_fails_is_an_error_of_the_case(tmp_path: Path) -> None:
    [case] = cases(tmp_path, toy.HEAD.replace(":scale", ":broken") + 'dtype = "FLOAT_32"\nshape = "3"\n')
    assert case.error is not None and case.error.kind == "reference"
    assert case.error.message == (
        "the reference reference.py:broken raised IndexError: index 99 is out of bounds for axis 0 with size 3"
    )
    assert case.error.hint == f"{tmp_path / 'reference.py'}:13: return x[99]"


@pytest.mark.parametrize(
    ("returned", "mandatory", "said"),  # mandatory: another output, `z`
    [
        ("()", "", "no `y`, which would not be compared"),
        ("{}", "", "no `y`, which would not be compared"),
        ("x", "true", "no `z`, which would not be compared"),
        ("{'z': x}", "true", "no `y`, which would not be compared"),
        ("x", "false", ""),
        ("x, x", "true", ""),
        ("None", "", "NoneType for `y`, which is not an array"),
        ("x, x", "", "2 arrays, the op has 1 outputs"),
        ("{'y': x, 'q': x}", "", "`q`, which is not an output"),
    ],
)
def test_a_reference_returns_each_output(returned: str, mandatory: str, said: str, tmp_path: Path) -> None:
    toy.write(tmp_path, f'{toy.HEAD}dtype = "FLOAT_32"\nshape = "3"\n')
    more = texts.tensor("Output", "z", mandatory=mandatory) if mandatory else ""
    (tmp_path / "Toy.xml").write_text(toy.CONFIG.replace("</Output>", f"</Output>{more}"))
    (tmp_path / "reference.py").write_text(f"def scale(x, factor):\n    return {returned}\n")
    [case] = cases_in(tmp_path)
    wanted = f"the reference reference.py:scale returns {said}" if said else ""
    assert (case.error.message if case.error else "") == wanted


@pytest.mark.parametrize(
    ("dtype", "body", "tolerance", "shown"),
    [
        ("INT_32", "x + 0.4", "", "0.4"),
        ("UINT_8", "x + np.nan", "", "nan"),
        ("BOOL_8", "x * 0 + 0.5", "", "0.5"),
        ("UINT_32", "x * 0 + 0.5", '"exact"', "0.5"),
        ("INT_32", "x + 0.4", '"1 step"', ""),
        ("INT_32", "x / 3 * 3 + np.inf", "", ""),
        ("FLOAT_32", "x + 0.4", "", ""),
    ],
)
def test_a_reference_of_integers_returns_integers(
    dtype: str, body: str, tolerance: str, shown: str, tmp_path: Path
) -> None:
    more = f"tolerance = {tolerance}\n" if tolerance else ""
    toy.write(tmp_path, f'{toy.HEAD}dtype = "{dtype}"\nshape = "3"\nvalues = "constant(0)"\n{more}')
    (tmp_path / "Toy.xml").write_text(toy.CONFIG.replace("UFIXED_POINT_8", dtype))
    (tmp_path / "reference.py").write_text(f"import numpy as np\n\ndef scale(x, factor):\n    return {body}\n")
    [case] = cases_in(tmp_path)
    wanted = f"the reference of Scale returns {shown} for `y`, which is {dtype}"
    assert (case.error.message if case.error else "") == (wanted if shown else "")


@pytest.mark.parametrize(
    ("reference", "message", "hint"),
    [
        ("reference.py:scael", "defines no function `scael`", "did you mean `scale`?"),
        ("nowhere.py:f", "nowhere.py cannot be read: No such file", "write it, or name another file"),
        ("reference.py", "`reference.py` names no reference", "as in reference.py:softmax"),
        ("onnx:Nonsense", "", ""),
    ],
)
def test_missing_references(tmp_path: Path, reference: str, message: str, hint: str) -> None:
    if reference.startswith("onnx"):
        pytest.importorskip("onnx")
        message, hint = "ONNX has no op `Nonsense`", "names are written as in Softmax"
    with pytest.raises(UsageError) as caught:
        cases(tmp_path, toy.HEAD.replace("reference.py:scale", reference))
    assert message in caught.value.message and caught.value.hint.startswith(hint)


def test_a_reference_that_cannot_be_loaded(tmp_path: Path) -> None:
    for text, message in (
        ("def scale(:\n", "bad.py:1: "),
        ("import numpy\n1/0\n", "ZeroDivisionError: division by zero"),
    ):
        (tmp_path / "bad.py").write_text(text + "# " + message)
        with pytest.raises(UdogenError, match=message):
            cases(tmp_path, toy.HEAD.replace("reference.py", "bad.py"))


def test_onnx_as_the_reference(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    toy.write(tmp_path)
    folder = Path(__file__).parents[2] / "examples" / "leaky_relu"
    text = (folder / "op_tests.toml").read_text().replace("reference.py:leaky_relu", "onnx:LeakyRelu")
    text = text.replace('config = "', f'config = "{folder}/').replace('kernels = "', f'kernels = "{folder}/')
    (tmp_path / "op_tests.toml").write_text(text)
    [first], [second] = load_examples(folder), load_examples(tmp_path)
    for one, other in zip(first.cases, second.cases, strict=True):
        assert other.error is None, other.error
        np.testing.assert_allclose(one.expected["output"], other.expected["output"], rtol=1e-6)


def test_an_onnx_model_as_the_reference_gets_its_own_data_types(tmp_path: Path) -> None:
    """References get float64; a model with 32-bit constants would compute with mixed types."""
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [
            helper.make_node("Greater", ["x", "limit"], ["over"]),
            helper.make_node("Where", ["over", "x", "limit"], ["y"]),
        ],
        "clipped",
        [helper.make_tensor_value_info("x", kind, ["n"])],
        [helper.make_tensor_value_info("y", kind, ["n"])],
        [helper.make_tensor("limit", kind, [], [0.1])],
    )
    onnx.save(helper.make_model(graph), tmp_path / "clipped.onnx")
    found = references.find("onnx:clipped.onnx", tmp_path)([np.array([0.0, 0.5])], {}, ["y"])["y"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.array([0.1, 0.5], np.float32))


# --- Python ---------------------------------------------------------------------------------------

PYTHON = """
from udogen.verify import op_test


@op_test("Scale", shape="3", dtype="FLOAT_32")
@op_test("Scale", name_of_case=1)
def scale(x, factor):
    return x * factor
"""


def test_a_test_file_in_python(tmp_path: Path) -> None:
    toy.write(tmp_path)
    (tmp_path / "tests").mkdir()
    path = tmp_path / "tests" / "test_scale.py"
    path.write_text(PYTHON.replace(", name_of_case=1", ', case=[{"name": "a", "shape": "2"}, {"name": "b"}]'))
    suite, _ = configs.sources(load_test_files(tmp_path))
    assert [op.subject.config for op in suite.ops] == [tmp_path / "Toy.xml"] * 2
    assert {"3", "a: 2", "b: 7"} <= {case.name for case in cases_in(tmp_path)}
    path.write_text(PYTHON)
    with pytest.raises(ConfigError) as caught:
        load_test_files(tmp_path)
    assert [(finding.location.line, finding.message) for finding in caught.value.findings] == [
        (5, "`name_of_case` is not a known key")
    ]


def test_values_and_subjects_are_read_as_what_they_are(tmp_path: Path) -> None:
    toy.write(tmp_path, 'kernels = "k"\n' + toy.HEAD + 'values = ["edge", { x = [1, 2] }]\n')
    [tests] = load_test_files(tmp_path).ops
    assert tests.subject == Subject(kernels=tmp_path / "k")
    assert tests.groups[0].values == ({"": Fill("edge")}, {"x": GivenNumbers([1, 2])})


@pytest.mark.parametrize(
    ("name", "text", "is_one"),
    [
        ("op_tests.toml", "", True),
        ("softmax.op_tests.toml", "", True),
        ("my_op_tests.toml", "", False),
        ("other.toml", "", False),
        ("test_a.py", "from udogen.verify import op_test\n", True),
        ("test_a.py", "import numpy\n", False),
        ("a.py", "from udogen.verify import op_test\n", False),
    ],
)
def test_the_names_of_test_files(name: str, text: str, is_one: bool, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert read.is_test_file(tmp_path / name) is is_one
