"""The registration library of a UDO package: its descriptions, the calls that it accepts or refuses, and the codes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.making import COMPILERS, ROOT, compiler, make_packages, make_well
from tests.opdef.texts import X, Y, collection, op, param
from tests.snpe.packages import SOFTMAX, X86, registration
from udogen import GenerateOptions
from udogen.configs.load import load
from udogen.generate.pipeline import generate
from udogen.qnn import abi, udo
from udogen.runtime.package_queries import read_registration

MANY = ROOT / "tests" / "configs" / "Udo.xml"
CPU, GPU, DSP = 1, 2, 4
FLOAT_16, FLOAT_32, FIXED_8, UINT_8, UINT_32, INT_8, INT_32 = 1, 2, 8, 0x100, 0x400, 0x1000, 0x4000
NULL_LAYOUT = 0x13
OK, INVALID, UNSUPPORTED, OPERATION, CORE, PARAMS, DIMENSIONS, INPUTS, OUTPUTS = 0, 2, 3, 100, 101, 102, 103, 104, 105
BEFORE_INIT = 0xFFFFFFFF


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the library of a package with every kind of tensor and parameter."""
    return registration(MANY, tmp_path_factory.mktemp("udo"))


@pytest.fixture
def library(built: Path) -> Any:
    """Return the library, initialised."""
    opened = udo.open_library(str(built))
    assert opened.SnpeUdo_initRegLibrary() == OK
    return opened


@pytest.mark.parametrize("name", COMPILERS)
def test_each_compiler_takes_its_sources_without_a_word(tmp_path: Path, name: str) -> None:
    registration(MANY, tmp_path, cxx=compiler(name), flags="-Wpedantic")


def test_it_exports_these_functions_and_no_other(built: Path) -> None:
    output = subprocess.run(["nm", "-D", "--defined-only", built], capture_output=True, text=True, check=True).stdout
    assert sorted(line.split()[-1] for line in output.splitlines()) == [
        "SnpeUdo_getRegInfo",
        "SnpeUdo_getRegLibraryVersion",
        "SnpeUdo_getVersion",
        "SnpeUdo_initRegLibrary",
        "SnpeUdo_terminateRegLibrary",
        "SnpeUdo_validateOperation",
    ]


def test_nothing_runs_and_nothing_is_allocated_when_it_is_loaded(built: Path) -> None:
    output = subprocess.run(["nm", "-DC", "--undefined-only", built], capture_output=True, text=True, check=True).stdout
    assert not [line for line in output.splitlines() if "malloc" in line or "operator new" in line]
    symbols = subprocess.run(["nm", "-C", built], capture_output=True, text=True, check=True).stdout
    assert "_GLOBAL__sub_I" not in symbols  # the name of a constructor of a static object


def test_names_of_libraries_can_be_given_to_the_compiler(tmp_path: Path) -> None:
    made = registration(MANY, tmp_path, flags="'-DUDO_LIB_NAME_DSP=\"libMine.so\"'")
    assert dict(read_registration(made).libraries) == {
        "CPU": "libUdoManyUdoImplCpu.so",
        "GPU": "libUdoManyUdoImplGpu.so",
        "DSP": "libMine.so",
    }


def test_what_it_contains(built: Path) -> None:
    output = read_registration(built)
    assert (output.package, output.cores) == ("ManyUdo", ("CPU", "GPU", "DSP"))
    assert (output.version, output.api_version) == ((2, 5, 0), (1, 6, 0))
    everything, join, quantized = output.ops
    assert everything.cores == ("CPU", "GPU", "DSP")
    assert everything.params == (
        udo.RegisteredParam("axis", "scalar", "INT_32", 0, ()),
        udo.RegisteredParam("beta", "scalar", "FLOAT_32", 0.5, ()),
        udo.RegisteredParam("offset", "scalar", "INT_8", -3, ()),
        udo.RegisteredParam("pads", "tensor", "UINT_32", None, (3, 2)),
        udo.RegisteredParam("table", "tensor", "FLOAT_32", None, ()),
    )
    types = {"CPU": "FLOAT_32", "GPU": "FLOAT_16", "DSP": "FIXED_8"}
    floats = dict.fromkeys(types, "FLOAT_32")
    assert everything.inputs == (
        udo.RegisteredTensor("in[0]", "NHWC", types, repeated=False, static=False),
        udo.RegisteredTensor("bias", "LAST", floats, repeated=False, static=True),
    )
    assert everything.calculates["CPU"] == ("FLOAT_16", "FLOAT_32")
    assert {"INT_8", "INT_16", "FIXED_8"} <= set(everything.calculates["DSP"])
    assert (join.cores, [tensor.repeated for tensor in join.inputs]) == (("CPU",), [False, True, False])
    assert (join.params[0].kind, join.params[0].value) == ("string", 'say "hi"?\\n')
    assert (quantized.cores, quantized.outputs[0].types) == (("DSP",), {"DSP": "FIXED_8"})


def test_the_names_of_ops_in_one_text(library: Any) -> None:
    ffi = abi.ffi(abi.UDO)
    info = ffi.new("SnpeUdo_RegInfo_t **")
    assert library.SnpeUdo_getRegInfo(info) == OK
    assert ffi.string(info[0].operationsString) == b"Everything Join Quantized"


def test_the_config_of_the_documentation_is_registered_as_it_is_written(tmp_path: Path) -> None:
    [op] = read_registration(registration(SOFTMAX, tmp_path)).ops
    assert (op.type, op.cores) == ("Softmax", ("CPU", "GPU", "DSP"))
    assert op.inputs[0].types == {"CPU": "FLOAT_32", "GPU": "FLOAT_32", "DSP": "UINT_8"}


def test_the_numbers_of_a_default_tensor_lie_in_memory(library: Any) -> None:
    ffi = abi.ffi(abi.UDO)
    info = ffi.new("SnpeUdo_RegInfo_t **")
    assert library.SnpeUdo_getRegInfo(info) == OK
    tensor = info[0].operationsInfo[0].staticParams[3].tensorParam
    assert ffi.unpack(ffi.cast("uint32_t *", tensor.tensorData), 6) == [1, 2, 3, 4, 5, 6]
    assert tensor.maxDimensions == tensor.currDimensions


def test_a_default_beyond_the_first_type_is_the_nearest_that_it_holds(tmp_path: Path) -> None:
    params = param("low", "FLOAT_16 FLOAT_32", default="-1e6") + param("high", "FLOAT_16 FLOAT_32", default="1e6")
    params += param("signed", "INT_8 INT_32", default="-300") + param("unsigned", "UINT_8 INT_32", default="-1")
    (tmp_path / "Beyond.xml").write_text(collection(op(X + Y + params)))
    [made] = make_packages([tmp_path / "Beyond.xml"], tmp_path / "out", layout="snpe")
    text = "".join(path.read_text() for path in (made.folder / "jni/src/reg").rglob("*.cpp"))
    assert re.findall(r'"(\w+)", SNPE_UDO_PARAMTYPE_SCALAR,[^"]*\{(0x\w+)u,', text) == [
        ("low", "0xfc00"), ("high", "0x7c00"), ("signed", "0x80"), ("unsigned", "0x0")
    ]  # fmt: skip


def test_versions(library: Any) -> None:
    version = abi.ffi(abi.UDO).new("SnpeUdo_LibVersion_t **")
    for function in (library.SnpeUdo_getVersion, library.SnpeUdo_getRegLibraryVersion):
        assert function(version) == OK
        found = (version[0].libVersion, version[0].apiVersion)
        assert [(each.major, each.minor, each.teeny) for each in found] == [(2, 5, 0), (1, 6, 0)]


def test_nothing_but_init_works_before_it_and_after_the_end(built: Path) -> None:
    ffi, opened = abi.ffi(abi.UDO), udo.open_library(str(built))
    info, version = ffi.new("SnpeUdo_RegInfo_t **"), ffi.new("SnpeUdo_LibVersion_t **")
    op = _Definition("Quantized", DSP).tensor("inputs", FIXED_8, 4).tensor("outputs", FIXED_8, 4)
    for _ in range(3):
        assert opened.SnpeUdo_terminateRegLibrary() == OK
        assert opened.SnpeUdo_terminateRegLibrary() == OK
        assert opened.SnpeUdo_getRegInfo(info) == BEFORE_INIT
        assert opened.SnpeUdo_getVersion(version) == BEFORE_INIT
        assert op.judge(opened) == BEFORE_INIT
        assert opened.SnpeUdo_initRegLibrary() == OK
        assert opened.SnpeUdo_initRegLibrary() == OK
        assert opened.SnpeUdo_getRegInfo(info) == OK
        assert op.judge(opened) == OK


def test_null_is_answered_with_a_code(library: Any) -> None:
    ffi = abi.ffi(abi.UDO)
    for function in (
        library.SnpeUdo_getRegInfo,
        library.SnpeUdo_getVersion,
        library.SnpeUdo_getRegLibraryVersion,
        library.SnpeUdo_validateOperation,
    ):
        assert function(ffi.NULL) == INVALID
    given = ffi.new("SnpeUdo_OpDefinition_t *")
    assert library.SnpeUdo_validateOperation(given) == INVALID
    for count in ("numOfInputs", "numOfOutputs", "numOfStaticParams"):
        definition = _everything()
        setattr(definition.given, count, 1)
        setattr(definition.given, {"numOfStaticParams": "staticParams"}.get(count, count[5:].lower()), ffi.NULL)
        assert definition.judge(library, finish=False) == INVALID


class _Definition:
    """An operation of a network, as SNPE passes it."""

    def __init__(self, op: str, core: int) -> None:
        ffi = abi.ffi(abi.UDO)
        self._keep: list[Any] = [ffi.new("char[]", op.encode())]
        self.given = ffi.new("SnpeUdo_OpDefinition_t *")
        self.given.udoCoreType, self.given.operationType = core, self._keep[0]
        self._rows: dict[str, list[Any]] = {"inputs": [], "outputs": [], "staticParams": []}

    def tensor(self, side: str, dtype: int, rank: int, layout: int = 1) -> _Definition:
        row = abi.ffi(abi.UDO).new("SnpeUdo_TensorParam_t *")
        row.dataType, row.tensorRank, row.layout = dtype, rank, layout
        self._rows[side].append(row)
        return self

    def param(self, name: str, kind: int, dtype: int = 0, rank: int = 0, text: str | None = "x") -> _Definition:
        ffi = abi.ffi(abi.UDO)
        row = ffi.new("SnpeUdo_Param_t *")
        self._keep.append(ffi.new("char[]", name.encode()))
        row.paramType, row.paramName = kind, self._keep[-1]
        if kind == 0:
            row.scalarParam.dataType = dtype
        elif kind == 1:
            self._keep.append(ffi.new("char[]", text.encode()) if text is not None else ffi.NULL)
            row.stringParam = self._keep[-1]
        else:
            row.tensorParam.dataType, row.tensorParam.tensorRank = dtype, rank
        self._rows["staticParams"].append(row)
        return self

    def judge(self, library: Any, *, finish: bool = True) -> int:
        ffi = abi.ffi(abi.UDO)
        for member, rows in self._rows.items() if finish else ():
            kind = "SnpeUdo_Param_t" if member == "staticParams" else "SnpeUdo_TensorParam_t"
            made = ffi.new(f"{kind}[]", [row[0] for row in rows])
            self._keep.append(made)
            setattr(self.given, member, made)
            setattr(self.given, f"numOf{member[0].upper()}{member[1:]}", len(rows))
        return int(library.SnpeUdo_validateOperation(self.given))


def _everything(core: int = CPU, dtype: int = FLOAT_32) -> _Definition:
    given = _Definition("Everything", core).tensor("inputs", dtype, 4).tensor("outputs", dtype, 4)
    return given.param("axis", 0, INT_32).param("table", 2, FLOAT_32, 1)


def _join(parts: int) -> _Definition:
    given = _Definition("Join", CPU).tensor("inputs", INT_32, 3).tensor("outputs", FLOAT_32, 7)
    for _ in range(parts):
        given.tensor("inputs", FLOAT_32, 2)
    return given.tensor("inputs", INT_32, 1)


ACCEPTED: dict[str, Callable[[], _Definition]] = {
    "what is needed": _everything,
    "everything": lambda: (
        _everything()
        .tensor("inputs", FLOAT_32, 1)
        .param("beta", 0, FLOAT_32)
        .param("offset", 0, INT_8)
        .param("pads", 2, UINT_32, 2)
    ),
    "an optional input marked as absent": lambda: _everything().tensor("inputs", FLOAT_32, 1, NULL_LAYOUT),
    "the second type of GPU": lambda: (
        _Definition("Everything", GPU)
        .tensor("inputs", FLOAT_32, 4)
        .tensor("outputs", FLOAT_16, 4)
        .param("axis", 0, INT_32)
        .param("table", 2, FLOAT_32, 1)
    ),
    "fixed point on DSP": lambda: _everything(DSP, FIXED_8),
    "its other name": lambda: _everything(DSP, UINT_8),
    "repeated once": lambda: _join(1),
    "repeated nine times": lambda: _join(9),
    "a text": lambda: _join(1).param("mode", 1),
}

REFUSED: dict[str, tuple[int, Callable[[], _Definition]]] = {
    "no such op": (OPERATION, lambda: _Definition("Nothing", CPU)),
    "no core": (CORE, lambda: _everything(0)),
    "two cores at once": (CORE, lambda: _everything(CPU | GPU)),
    "a core that nobody knows": (CORE, lambda: _everything(8)),
    "an op that is not for this core": (CORE, lambda: _Definition("Join", GPU)),
    "a parameter is missing": (
        PARAMS,
        lambda: (
            _Definition("Everything", CPU)
            .tensor("inputs", FLOAT_32, 4)
            .tensor("outputs", FLOAT_32, 4)
            .param("axis", 0, INT_32)
        ),
    ),
    "a parameter is given twice": (PARAMS, lambda: _everything().param("axis", 0, INT_32)),
    "a parameter of another name": (INVALID, lambda: _everything().param("axes", 0, INT_32)),
    "a tensor for a scalar": (INVALID, lambda: _everything().param("beta", 2, FLOAT_32, 1)),
    "a text that is NULL": (INVALID, lambda: _join(1).param("mode", 1, text=None)),
    "a scalar of another type": (UNSUPPORTED, lambda: _everything().param("beta", 0, INT_32)),
    "a parameter of another rank": (DIMENSIONS, lambda: _everything().param("pads", 2, UINT_32, 3)),
    "no input": (INPUTS, lambda: _Definition("Quantized", DSP).tensor("outputs", FIXED_8, 4)),
    "too many inputs": (
        INPUTS,
        lambda: _everything().tensor("inputs", FLOAT_32, 1).tensor("inputs", FLOAT_32, 1),
    ),
    "nothing where one is repeated": (INPUTS, lambda: _join(0)),
    "an absent input that is needed": (
        INPUTS,
        lambda: _Definition("Quantized", DSP).tensor("inputs", FIXED_8, 4, NULL_LAYOUT).tensor("outputs", FIXED_8, 4),
    ),
    "no output": (OUTPUTS, lambda: _Definition("Quantized", DSP).tensor("inputs", FIXED_8, 4)),
    "an input of another type": (UNSUPPORTED, lambda: _everything(CPU, INT_32)),
    "no type at all": (UNSUPPORTED, lambda: _everything(CPU, 0)),
    "two types at once": (UNSUPPORTED, lambda: _everything(GPU, FLOAT_16 | FLOAT_32)),
    "the type of another core": (UNSUPPORTED, lambda: _everything(CPU, FLOAT_16)),
    "an input of another rank": (
        DIMENSIONS,
        lambda: _Definition("Quantized", DSP).tensor("inputs", FIXED_8, 3).tensor("outputs", FIXED_8, 4),
    ),
    "the last behind repeated ones": (UNSUPPORTED, lambda: _join(2).tensor("inputs", FLOAT_32, 2)),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_it_accepts(library: Any, name: str) -> None:
    assert ACCEPTED[name]().judge(library) == OK


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_refuses_and_with_which_code(library: Any, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    code, definition = REFUSED[name]
    assert definition().judge(library) == code
    output = capfd.readouterr().err
    assert output.startswith("ManyUdo: op "), "the reason is printed"
    assert output.count("\n") == 1


def test_texts_of_a_config_reach_the_compiler_as_text_only(tmp_path: Path) -> None:
    [package], findings = load([MANY])
    op = package.ops[1]
    wild = 'a"; }\n#error \\ ??/ \x01 %s é'
    op = replace(op, inputs=(replace(op.inputs[0], name=wild), *op.inputs[1:]))
    op = replace(op, params=(replace(op.params[0], name=wild, default=wild),))
    package = replace(package.with_ops((op,)), version="3.x.9; #error")
    [made] = generate([package], GenerateOptions(tmp_path, backends=("cpu",), layout="snpe"), findings)
    make_well(made.folder, "reg_x86")
    output = read_registration(made.folder / X86 / "libUdoManyUdoReg.so")
    assert output.libraries == (("CPU", "libUdoManyUdoImplCpu.so"),)
    assert output.ops[0].inputs[0].name == wild
    assert (output.ops[0].params[0].name, output.ops[0].params[0].value) == (wild, wild)


def test_two_threads_may_begin_at_once(built: Path) -> None:
    program = f"""
import threading
from udogen.qnn import abi, udo
library = udo.open_library({str(built)!r})
def work():
    for _ in range(200):
        info = abi.ffi(abi.UDO).new("SnpeUdo_RegInfo_t **")
        assert library.SnpeUdo_initRegLibrary() == 0
        assert library.SnpeUdo_getRegInfo(info) == 0 and info[0].numOfOperations == 3
        assert info[0].operationsInfo[2].numOfCoreInfo == 1
threads = [threading.Thread(target=work) for _ in range(8)]
[each.start() for each in threads]
[each.join() for each in threads]
print("through")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.stdout, done.stderr) == ("through\n", "")
