"""The converter op package: Qualcomm's tree; complete functions if the config has all facts, the rest marked."""

from __future__ import annotations

import ctypes
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import succeeds, udogen
from tests.making import COMPILERS, ONE_KERNEL, ONE_OP, compiler, make, make_well
from tests.opdef.texts import collection, op, param, tensor
from udogen.backends.converter import LIBRARY, SUFFIX
from udogen.configs.load import load
from udogen.opdef import shape_rules
from udogen.qnn.abi import ffi

FLOAT, UFIXED, INT32 = 0x0232, 0x0408, 0x0032
UNWRITTEN, REFUSED = 1000, 3110


def shaped(tag: str, name: str, text: str, *, rank: str = "ND", more: str = "", datatype: str = "FLOAT_32") -> str:
    """Return a tensor with a shape text."""
    return tensor(tag, name, datatype, rank=rank, more=more).replace("</Rank>", f"</Rank><Text>{text}</Text>")


def constrained(name: str, kind: str, text: str, datatype: str = "FLOAT_32") -> str:
    """Return an output with a constraint."""
    constraint = f'<Constraint id="0" Type="{kind}">{text}</Constraint>'
    return tensor("Output", name, datatype).replace("</Name>", f"</Name>{constraint}")


BOTH = "FLOAT_32 UFIXED_POINT_8"
CONFIG = collection(
    op(tensor("Input", "x", BOTH) + constrained("y", "Shape", "Same shape as `x`.", BOTH), name="Element")
    + op(
        shaped("Input", "a", "[batch, rows, inner]", rank="3D")
        + shaped("Input", "b", "[inner, columns]", rank="2D")
        + shaped("Output", "y", "[batch, rows, columns, 2]", rank="4D"),
        name="MatMul",
    )
    + op(
        tensor("Input", "data")
        + tensor("Output", "count", "INT_32", rank="0D")
        + tensor("Output", "rest", BOTH, mandatory="false"),
        name="Open",
    )
    + op(
        tensor("Input", "one", BOTH)
        + tensor("Input", "two", BOTH)
        + constrained("y", "Datatype", "Same datatype as in[1]", BOTH)
        + constrained("z", "Shape", "Same shape as in[1] but for the last axis")
        + param("axis", "INT_32", default="1"),
        name="Two",
    )
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the package of CONFIG, generated and built."""
    out = tmp_path_factory.mktemp("out")
    (out / "demo.xml").write_text(CONFIG)
    done = succeeds("generate", out / "demo.xml", "-cop", "-o", out, "--json")
    folder = out / f"Demo{SUFFIX}"
    assert {"folder": str(folder), "backend": "converter"}.items() <= json.loads(done.stdout)["packages"][-1].items()
    make_well(folder, "cpu_x86")
    return folder


class Host:
    """The role of a converter: it loads the library, and requests the outputs of one op."""

    def __init__(self, folder: Path) -> None:
        self._library = ctypes.CDLL(str(folder / "ConverterOpPackage" / LIBRARY))

    def ask(
        self,
        function: str,
        inputs: Sequence[tuple[tuple[int, ...], int]],
        outputs: int = 1,
        *,
        version: int = 1,
        ranks: Sequence[int] = (),
        pointer: bool = False,
    ) -> tuple[int, list[tuple[tuple[int, ...], int]]]:
        """Return (status, shape and type of each output); `ranks`: ranks of outputs that the converter already has."""
        c: Any = ffi()
        keep: list[Any] = []

        def tensors(shapes: Sequence[tuple[tuple[int, ...], int]], printed: Sequence[int]) -> Any:
            made = c.new("Qnn_Tensor_t[]", max(len(shapes), 1))
            for index, (shape, datatype) in enumerate(shapes):
                dims = c.new("uint32_t[8]", list(shape))
                keep.append(dims)
                made[index].version = version
                made[index].v1.rank = printed[index]
                made[index].v1.dimensions = dims
                made[index].v1.dataType = datatype
            return made

        given = tensors(inputs, [len(shape) for shape, _ in inputs])
        wanted = tensors([((), 0)] * outputs, ranks or [0] * outputs)
        config = c.new("Qnn_OpConfig_t*")
        config.version = 1
        config.v1.numOfInputs, config.v1.inputTensors = len(inputs), given
        config.v1.numOfOutputs, config.v1.outputTensors = outputs, wanted
        if pointer:
            address = ctypes.c_void_p.in_dll(self._library, function).value
        else:
            address = ctypes.cast(getattr(self._library, function), ctypes.c_void_p).value
        status = c.cast("Qnn_ErrorHandle_t(*)(Qnn_OpConfig_t*)", address)(config)
        found = [wanted[index].v1 for index in range(outputs)]
        return int(status), [(tuple(each.dimensions[0 : each.rank]), int(each.dataType)) for each in found]


@pytest.fixture(scope="module")
def host(made: Path) -> Host:
    return Host(made)


# --- the tree -----------------------------------------------------------------------------------------------


def test_the_tree_is_the_documented_one(made: Path) -> None:
    seen = {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()}
    visible = {path for path in seen if not path.startswith((".", "obj/"))}
    assert visible == {
        "Makefile",
        "ConverterOpPackage/ConverterOpPackage.cpp",
        "ConverterOpPackage/Makefile.linux-x86_64",
        f"ConverterOpPackage/{LIBRARY}",  # the output of `make`
    }


def test_every_documented_symbol_is_exported(made: Path) -> None:
    printed = subprocess.run(["nm", "-D", "--defined-only", made / "ConverterOpPackage" / LIBRARY], capture_output=True)
    names = {line.split()[-1] for line in printed.stdout.decode().splitlines()}
    for each in ("Element", "MatMul", "Open", "Two"):
        ends = ("ShapeInference", "OutputInfoInferencePtr", "DataTypeInference", "DataTypeInferencePtr")
        assert {each + end for end in ends} <= names
    assert not [name for name in names if name.startswith("_Z")], "nothing else is"


@pytest.mark.parametrize("cxx", COMPILERS)
def test_every_compiler_builds_it_without_a_warning(cxx: str, made: Path) -> None:
    done = make(made, "clean", "cpu", cxx=compiler(cxx), jobs=1)
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
    assert make(made, "-q", "all", cxx=compiler(cxx)).returncode in (0, 1)


# --- its results --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
def test_an_element_wise_op_has_the_shape_of_its_input(version: int, host: Host) -> None:
    status, [(shape, _)] = host.ask("ElementShapeInference", [((2, 3, 5), FLOAT)], version=version)
    assert (status, shape) == (0, (2, 3, 5))
    for datatype in (FLOAT, UFIXED):
        status, [(_, found)] = host.ask("ElementDataTypeInference", [((2,), datatype)], version=version)
        assert (status, found) == (0, datatype)


def test_named_axes_are_found_in_the_inputs(host: Host) -> None:
    status, [(shape, _)] = host.ask("MatMulShapeInference", [((4, 5, 6), FLOAT), ((6, 7), FLOAT)])
    assert (status, shape) == (0, (4, 5, 7, 2))
    status, [(_, datatype)] = host.ask("MatMulDataTypeInference", [((4, 5, 6), FLOAT), ((6, 7), FLOAT)])
    assert (status, datatype) == (0, FLOAT)


def test_rank_0_and_an_only_type_are_known(host: Host, capfd: pytest.CaptureFixture[str]) -> None:
    assert host.ask("OpenDataTypeInference", [((3,), FLOAT)]) == (0, [((), INT32)])
    assert host.ask("OpenShapeInference", [((3,), FLOAT)]) == (0, [((), 0)]), "nobody asked for the optional output"
    assert host.ask("OpenShapeInference", [((3,), FLOAT)], 2)[0] == UNWRITTEN
    assert "nothing is known of output 1 (rest): write it in ConverterOpPackage" in capfd.readouterr().err


def test_a_type_like_that_of_another_input(host: Host) -> None:
    inputs = [((1,), FLOAT), ((1,), UFIXED)]
    status, found = host.ask("TwoDataTypeInference", inputs, 2)
    assert (status, [datatype for _, datatype in found]) == (0, [UFIXED, FLOAT])
    assert host.ask("TwoShapeInference", inputs, 2)[0] == UNWRITTEN


def test_the_pointers_lead_to_the_functions(host: Host) -> None:
    for name in ("ElementOutputInfoInferencePtr", "ElementDataTypeInferencePtr"):
        assert host.ask(name, [((2, 3), FLOAT)], pointer=True)[0] == 0


@pytest.mark.parametrize(
    ("inputs", "outputs", "ranks", "words"),
    [
        ([], 1, (), "has 0 inputs; at least 1 are needed"),
        ([((1,), FLOAT)] * 2, 1, (), "has 2 inputs; at most 1 can be"),
        ([((1,), FLOAT)], 0, (), "has 0 outputs; at least 1 are needed"),
        ([((1, 2, 3), FLOAT)], 1, (2,), "output 0 has no place for a shape of 3 axes"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(
    inputs: list[tuple[tuple[int, ...], int]],
    outputs: int,
    ranks: tuple[int, ...],
    words: str,
    host: Host,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert host.ask("ElementShapeInference", inputs, outputs, ranks=ranks)[0] == REFUSED
    assert f"op Element: {words}" in capfd.readouterr().err


def test_an_axis_that_is_not_there_is_refused(host: Host, capfd: pytest.CaptureFixture[str]) -> None:
    assert host.ask("MatMulShapeInference", [((4, 5, 6), FLOAT), ((6,), FLOAT)])[0] == REFUSED
    assert "input 1 has rank 1, so there is no axis 1" in capfd.readouterr().err


def test_no_config_at_all_is_refused(made: Path) -> None:
    function = ctypes.CDLL(str(made / "ConverterOpPackage" / LIBRARY)).ElementShapeInference
    function.restype = ctypes.c_uint64
    assert function(None) == 3200


# --- facts of the config ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "input_"),
    [
        ("Same shape as in[0]", 0),
        ("same shape as the input", 0),
        ("Must have the same dimensions as x.", 0),
        ("Same shape as 'x' input", 0),
        ("same shape as y", None),
        ("Same shape as in[3]", None),
        ("Same shape as x, with the last axis halved", None),
        ("Not the same shape as x", None),
        ("Rank >= 1", None),
    ],
)
def test_sentences_about_shapes(text: str, input_: int | None, tmp_path: Path) -> None:
    (tmp_path / "demo.xml").write_text(collection(op(tensor("Input", "x") + constrained("y", "Shape", text))))
    ([package], _) = load([tmp_path / "demo.xml"])
    found = shape_rules.shape(package.ops[0], package.ops[0].outputs[0])
    assert (found.input if isinstance(found, shape_rules.SameAs) else found) == input_


def test_behind_an_optional_input_places_are_not_known(tmp_path: Path) -> None:
    inputs = tensor("Input", "maybe", mandatory="false") + tensor("Input", "x")
    (tmp_path / "demo.xml").write_text(collection(op(inputs + constrained("y", "Shape", "Same shape as x"))))
    ([package], _) = load([tmp_path / "demo.xml"])
    assert shape_rules.shape(package.ops[0], package.ops[0].outputs[0]) is None


# --- the command line ---------------------------------------------------------------------------------------


def test_all_valid_is_no_type(tmp_path: Path) -> None:
    (tmp_path / "c.xml").write_text(collection(op(tensor("Input", "x") + tensor("Output", "y", "ALL_VALID"))))
    [package], _ = load([tmp_path / "c.xml"])
    assert shape_rules.datatype(package.ops[0], package.ops[0].outputs[0]) is None


def test_gaps_are_reported_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "demo.xml").write_text(CONFIG)
    done = succeeds("generate", tmp_path / "demo.xml", "--converter", "-o", tmp_path)
    assert "the config does not give the shape of output `z` of `Two` for converters" in done.stderr
    assert "`y` of `Element`" not in done.stderr
    assert udogen("generate", tmp_path / "demo.xml", "-cop", "--strict", "-o", tmp_path).returncode == 2
    assert "for converters" not in udogen("generate", tmp_path / "demo.xml", "-o", tmp_path).stderr


def test_your_code_stays_when_an_op_comes(tmp_path: Path) -> None:
    config = tmp_path / "demo.xml"
    config.write_text(collection(op()))
    assert udogen("generate", config, "-cop", "-o", tmp_path).returncode == 0
    source = tmp_path / f"Demo{SUFFIX}" / "ConverterOpPackage" / "ConverterOpPackage.cpp"
    mine = "op.setShape(0, {op.dim(0, 0) * 2});"
    source.write_text(source.read_text().replace('op.missing(0, "y");', mine, 1))
    config.write_text(collection(op() + op(name="Shift")))
    assert udogen("generate", config, "-cop", "-o", tmp_path).returncode == 0
    assert mine in source.read_text() and "ShiftShapeInference" in source.read_text()
    assert udogen("build", "converter_x86", "-C", tmp_path).returncode == 0
    status, [(shape, _)] = Host(source.parents[1]).ask("ScaleShapeInference", [((21,), FLOAT)])
    assert (status, shape) == (0, (42,))


def test_other_verbs_leave_it_alone(tmp_path: Path) -> None:
    succeeds("generate", ONE_OP, "-cop", "--kernels", ONE_KERNEL, "-o", tmp_path)
    done = udogen("build", "-C", tmp_path)
    assert done.returncode == 0 and done.stdout.count("compiled)") == 2, done.stdout + done.stderr
    done = succeeds("inspect", tmp_path)
    assert f"{LIBRARY}: a converter op package" in done.stdout
